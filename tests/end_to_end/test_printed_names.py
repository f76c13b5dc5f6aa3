"""Names that an older version took, with controls of a terminal in them: they open as ever, and are shown harmless."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.processes import Installation
from tests.terminal import run_on_terminal

Json = dict[str, Any]

ODD = "Work\x1b[2J\x07\x9b31m\u202eevil\nOK   counts"


@pytest.fixture
def odd(installation: Installation) -> Installation:
    """A home with such a scope, put into the database as 0.1.0 would have: no command makes one any more."""
    installation.call("store_memory", content="a harmless\x1b[31m text \u202e of tea", scope="Plain")
    uri = installation.home
    code = (
        "import asyncio, sys\n"
        "from infinite_memory.bootstrap import Application\n"
        "from infinite_memory.config import load_config\n"
        "from infinite_memory.paths import Home\n"
        "from pathlib import Path\n"
        "async def main():\n"
        f"    home = Home(Path({str(uri)!r}), explicit=True)\n"
        "    async with Application(load_config(home.config_file, {}, {}), home) as app:\n"
        "        await app.engine()\n"
        "        store = app.services.store\n"
        "        [plain] = [one for one in await store.list_scopes() if one.name == 'Plain']\n"
        f"        await store.change_scope(plain.scope_id, name={ODD!r}, description={ODD!r})\n"
        "asyncio.run(main())\n"
    )
    assert installation.command("daemon", "stop").returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", code], env=installation.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return installation


def on_a_terminal(installation: Installation, *arguments: str) -> str:
    """Run a command on a terminal; returns all that was shown."""
    command = [sys.executable, "-m", "infinite_memory", *arguments]
    environ = installation.environ | {"TERM": "dumb", "COLUMNS": "200"}
    return run_on_terminal(command, environ, cwd=installation.home.parent)[1]


def test_what_is_shown_of_an_odd_name_is_harmless_and_stays_on_its_line(odd: Installation) -> None:
    token = odd.command("tokens", "create", "--name", "a\x1b[2Jb")
    assert token.returncode == 1
    assert "control character" in token.stderr
    assert "\x1b" not in token.stderr
    for arguments in (
        ("stats",), ("scopes", "list"), ("scopes", "list", "--json"), ("stats", "--json"), ("scopes", "merge", ODD, "Global", "--dry-run"),
        ("scopes", "rename", ODD, ODD), ("scopes", "delete", "no\x1b[2J\u202ething", "--yes"), ("export",), ("export", "--format", "csv"),
        ("export", "--format", "markdown"), ("scopes", "export", ODD), ("call", "list_memories", '{"filter": {"scope": "ALL"}}'),
        ("doctor",), ("tokens", "list"), ("tokens", "revoke", "x\x1b[2J"), ("config",), ("help",), ("no\x1b[2Jcommand",),
    ):  # fmt: skip
        shown = on_a_terminal(odd, *arguments)
        for character in ("\x1b", "\x07", "\x9b", "\u202e"):
            assert character not in shown, (arguments, shown)
        if arguments[0] in ("stats", "doctor") or arguments == ("scopes", "list"):
            assert not any(line.startswith("OK   counts") for line in shown.splitlines()), shown
    listed = json.loads(odd.command("scopes", "list", "--json").stdout)
    assert {one["scope_name"] for one in listed} == {"Global", ODD}
    assert odd.call("search_by_scope", scope=ODD)["results"][0]["text"] == "a harmless\x1b[31m text \u202e of tea"
    exported = odd.command("export").stdout
    assert any(
        json.loads(line).get("text") == "a harmless\x1b[31m text \u202e of tea" for line in exported.splitlines()
    )


@pytest.mark.parametrize("name", ["a\x1bb", "a\nb", "a\x9bb", "a\x85b", "a\x07b"])
def test_no_new_name_has_such_characters(shared: Installation, name: str) -> None:
    shared.call("create_memory_scope", scope_name="Fine")
    for action, fields in (
        ("create_memory_scope", {"scope_name": name}), ("store_memory", {"content": "x", "scope": name}),
        ("change_memory_scope", {"scope": "Fine", "new_name": name}),
    ):  # fmt: skip
        reply = shared.call(action, **fields)
        assert reply["error_code"] == "INVALID_REQUEST", (action, reply)
        assert "control character" in reply["error"]
    palace = shared.serve("--contract", "palace")
    palace.initialize()
    assert (
        "control character"
        in palace.rpc(2, "tools/call", name="palace_create", arguments={"name": name})["error"]["message"]
    )
    laravel = shared.serve("--contract", "laravel")
    laravel.initialize()
    entry = {"organization": name, "scope_type": "system", "memory_type": "fact", "current_content": "x"}
    assert "control character" in laravel.tool(2, "memory-write", **entry)["error"]["message"]
