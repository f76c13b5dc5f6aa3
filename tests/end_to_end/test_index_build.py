"""`infinite-memory index build`: the index moves to Milvus beside a running memory, and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from infinite_memory.cli.index import write_engine
from infinite_memory.errors import ConfigError
from tests.milvus_server import LiteServer
from tests.mongo_server import fresh_database, shared_mongo
from tests.processes import LONG, Client, Installation, need_parts

TEXTS = [f"Ada has {drink} for breakfast" for drink in ("green tea", "black coffee", "water", "milk", "juice")]
HIDDEN_WORDS = "what does she drink in the morning?"


def found(client: Client) -> list[str]:
    reply = client.ask("retrieve_memory", query=HIDDEN_WORDS, top_k=20)
    assert (reply["status"], reply.get("note")) == ("OK", None), reply
    return [hit["text"] for hit in reply["results"]]


@pytest.mark.skipif(not LONG, reason="three daemons one after another: --long")
@pytest.mark.skipif(sys.platform != "linux", reason="the server's module is for Linux")
def test_the_index_moves_to_milvus_and_back(tmp_path: Path) -> None:
    need_parts()
    milvus = LiteServer(tmp_path / "milvus")
    environ = {
        "INFINITE_MEMORY_MONGODB__URI": shared_mongo().uri,
        "INFINITE_MEMORY_MONGODB__DATABASE": fresh_database(),
    }
    try:
        with Installation(tmp_path / "home", environ) as one:
            client = one.serve()
            for text in TEXTS:
                assert client.ask("store_memory", content=text)["status"] == "OK"
            before = found(client)
            assert len(before) == len(TEXTS)
            file = one.home / "config.toml"
            file.write_text(f'# mine\n[index]\nuri = "{milvus.uri}"  # where it is\n')

            refused = one.command("index", "build", "--engine", "milvus")
            assert refused.returncode == 1
            assert "Milvus does not answer" in refused.stderr
            assert "engine" not in file.read_text()

            milvus.start()
            built = one.command("index", "build", "--engine", "milvus")
            assert built.returncode == 0, built.stderr
            assert "5 in the new index, 5 stored" in built.stdout
            assert "all the same" in built.stdout
            assert "100.0% of the hits of 5 questions" in built.stdout
            assert file.read_text() == f'# mine\n[index]\nengine = "milvus"\nuri = "{milvus.uri}"  # where it is\n'
            assert found(client) == before
            assert client.ask("store_memory", content="Ada has cocoa for breakfast")["status"] == "OK"

            back = one.command("index", "build", "--engine", "embedded", "--json")
            assert (back.returncode, '"count": 6' in back.stdout) == (0, True), back
            milvus.kill()
            assert sorted(found(client)) == sorted([*before, "Ada has cocoa for breakfast"])
            again = one.command("index", "build", "--engine", "embedded")
            assert again.returncode == 2
            assert "already" in again.stderr
    finally:
        milvus.kill()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '\n[index]\nengine = "milvus"\n'),
        ("[time]\nzone = 'UTC'", "[time]\nzone = 'UTC'\n\n[index]\nengine = \"milvus\"\n"),
        ("[index]\nengine = 'faiss'\n[log]\n", '[index]\nengine = "milvus"\n[log]\n'),
        ("[index] # here\n[log]\n", '[index] # here\nengine = "milvus"\n[log]\n'),
    ],
)
def test_the_engine_is_written_and_nothing_else(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    write_engine(file, "milvus")
    assert file.read_text() == expected


def test_a_file_that_cannot_be_changed_safely_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("index = { engine = 'faiss' }\n")
    with pytest.raises(ConfigError, match="by hand"):
        write_engine(file, "milvus")
    assert file.read_text() == "index = { engine = 'faiss' }\n"


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_file_of_settings_is_as_closed_as_before_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    """It may hold the database's password."""
    file, link = tmp_path / "settings.toml", tmp_path / "config.toml"
    file.write_text("[index]\n")
    file.chmod(0o600)
    link.symlink_to(file)
    write_engine(link, "milvus")
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    assert 'engine = "milvus"' in file.read_text()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["config.toml", "settings.toml"]
