"""Sidecar files that are cut, swapped, foreign, from another model or from the future: never served, always rebuilt."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import LONG, Client, Installation, need_parts

TEXTS = ("My favorite color is blue", "The spare key is under the flower pot", "Ada was born in London")
QUERIES = ("which colour do I like best?", "where is the key?", "birthplace of Ada")


def generation(home: Path) -> Path:
    [found] = (home / "sidecars").glob("generation-*")
    return found


def vectors(home: Path) -> Path:
    """The largest file that holds data."""
    return max((one for one in generation(home).rglob("*") if one.is_file()), key=lambda one: one.stat().st_size)


def truncated(home: Path, _: Path) -> None:
    file = vectors(home)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def one_bit_wrong(home: Path, _: Path) -> None:
    file = vectors(home)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def files_swapped(home: Path, _: Path) -> None:
    files = sorted(one for one in generation(home).rglob("*") if one.is_file() and one.name != "header.json")
    first, second = files[0].read_bytes(), files[1].read_bytes()
    files[0].write_bytes(second)
    files[1].write_bytes(first)


def a_file_missing(home: Path, _: Path) -> None:
    vectors(home).unlink()


def of_another_home(home: Path, other: Path) -> None:
    target = generation(home)
    shutil.rmtree(target)
    shutil.copytree(generation(other), target)


def sealed(home: Path, **changes: object) -> None:
    header = generation(home) / "header.json"
    body = json.loads(header.read_bytes().partition(b"\n")[0]) | changes
    line = json.dumps(body).encode()
    header.write_bytes(line + b"\n%08x\n" % zlib.crc32(line))


def from_the_future(home: Path, _: Path) -> None:
    sealed(home, format=99)


def of_another_model(home: Path, _: Path) -> None:
    sealed(home, space="some-other-model/384/fp32")


def header_of_nonsense(home: Path, _: Path) -> None:
    (generation(home) / "header.json").write_bytes(b"\0" * 100)


def gone(home: Path, _: Path) -> None:
    shutil.rmtree(home / "sidecars")


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds `TEXTS`, and another one, both without a daemon."""
    need_parts()
    folder = tmp_path_factory.mktemp("stocked")
    for name, texts in (("home", TEXTS), ("other", ("Somebody else likes red",))):
        with Installation(folder / name) as one:
            client = one.serve()
            for text in texts:
                assert client.ask("store_memory", content=text)["status"] == "OK"
            assert client.close() == 0
    return folder


def test_whatever_is_wrong_with_the_files_the_answers_are_right(stocked: Path) -> None:
    """One home, one fault after the other: each start is a daemon's own."""
    faults: list[Callable[[Path, Path], None]] = [
        one_bit_wrong, a_file_missing, of_another_home, from_the_future, header_of_nonsense,
        *((truncated, files_swapped, of_another_model, gone) if LONG else ()),
    ]  # fmt: skip
    home = stocked / "home"
    for fault in faults:
        fault(home, stocked / "other")
        with Installation(home) as installation:
            client: Client = installation.serve()
            for text, query in zip(TEXTS, QUERIES, strict=True):
                assert client.ask("retrieve_memory", query=query)["results"][0]["text"] == text, fault.__name__
            stats = client.ask("get_memory_stats")["stats"]
            assert stats["total_memories"] == stats["sidecar"]["count"] == len(TEXTS), fault.__name__
            assert "rebuilt" in (home / "logs" / "infinite-memory.log").read_text()
            assert client.close() == 0
