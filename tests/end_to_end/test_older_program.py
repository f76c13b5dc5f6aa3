"""Two versions in one home: the newer client takes over from the older daemon, the older program is refused by newer data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory import __version__
from infinite_memory.store.mongo.schema import SCHEMA_VERSION
from tests.package_copy import copy_package, install
from tests.processes import Installation, is_alive, need_parts, until

OLDER, NEWER = "0.1.9", "9.8.7"


def change(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text("utf-8"), flags=re.MULTILINE)
    assert count == 1, f"{file} has not once: {pattern}"
    file.write_text(text, "utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    need_parts()
    return tmp_path / "home"


@pytest.fixture
def older(home: Path, tmp_path: Path) -> Iterator[Installation]:
    """The home as an older program uses it."""
    package = copy_package(tmp_path / "older")
    change(package / "__init__.py", r"^__version__ = .*$", f'__version__ = "{OLDER}"')
    with install(package, home) as installation:
        yield installation


def test_an_older_daemon_finishes_what_it_has_read_and_the_newer_one_takes_over(
    older: Installation, home: Path
) -> None:
    session = older.serve()
    assert session.ask("store_memory", content="first")["status"] == "OK"
    assert older.status()["version"] == OLDER
    before = older.daemon_pid()
    assert before is not None
    long = "tea and biscuits at noon. " * 1500  # some forty windows to embed
    session.send({"action": "ping"}, {"action": "store_memory", "content": long, "request_id": "long"})
    assert session.reply()["pong"]  # so the long one is read
    with Installation(home) as present:
        client = present.serve()
        texts = [memory["text"] for memory in client.ask("list_memories")["results"]]
        assert sorted(text[:5] for text in texts) == ["first", "tea a"], "what the older one had read is stored"
        until(lambda: not is_alive(before), "the older daemon has gone")
        assert present.status()["version"] == __version__
        after = present.daemon_pid()
        reply = session.reply()
        assert (reply["status"], reply["request_id"]) == ("OK", "long")
        # the session that was open moves over, and does not bring its own version back
        assert session.ask("get_memory", memory_id=reply["memory_id"])["memory"]["text"] == long
        assert client.ask("store_memory", content="last")["status"] == "OK"
        assert session.ask("list_memories")["total"] == 3
        assert (present.daemon_pid(), present.status()["version"]) == (after, __version__)


@pytest.mark.parametrize("command", [("tokens", "create", "--metrics"), ("open", "--print")])
def test_a_command_that_an_older_daemon_may_take_for_another_is_answered_by_its_own(
    command: tuple[str, ...], older: Installation, home: Path
) -> None:
    assert older.call("ping")["pong"]
    with Installation(home) as present:
        shown = present.command("daemon", "status")
        assert f"the daemon is version {OLDER}, this program is version {__version__}" in shown.stderr
        assert present.status()["version"] == OLDER, "to look at it changes nothing"
        done = present.command(*command)
        assert done.returncode == 0, done.stderr
        assert present.status()["version"] == __version__


def test_a_home_with_newer_data_names_the_version_to_install_to_an_older_program(home: Path, tmp_path: Path) -> None:
    package = copy_package(tmp_path / "newer")
    change(package / "__init__.py", r"^__version__ = .*$", f'__version__ = "{NEWER}"')
    schema = package / "store" / "mongo" / "schema.py"
    change(schema, r"^SCHEMA_VERSION = \d+$", f"SCHEMA_VERSION = {SCHEMA_VERSION + 1}")
    with install(package, home) as newer:
        assert newer.call("store_memory", content="tea")["status"] == "OK"
        with Installation(home) as present:
            client = present.serve()
            for action in ("list_memories", "store_memory"):
                refused = client.ask(action, **({"content": "coffee"} if action == "store_memory" else {}))
                assert refused["status"] == "ERROR"
                assert f"install infinite-memory {NEWER} or newer" in refused["error"]
        again = newer.call("list_memories")
        assert [memory["text"] for memory in again["results"]] == ["tea"], "nothing was changed"
