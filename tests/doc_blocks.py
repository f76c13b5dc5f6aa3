"""The blocks of code in the documents, and a session that carries them out one after another in an empty home.

What is run, by a block's language:

- ``console``: lines with ``$`` are commands; what stands below one is what it prints.
- ``json``: objects with an ``action`` are requests of one session; an object after one is the reply to it.
- ``python``: a program of its own; a ``text`` block right after it is what it prints.
- ``sh``: commands that must succeed. ``cron``: the same of each line's command, up to its first pipe.
- other ``json`` and ``toml`` must be read without error.

``<!-- not run: REASON -->`` before a block leaves it out: what would install something, change this machine, or needs another program.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doc_matching import Names, differences, is_text_alike
from tests.processes import PATIENCE_S, ROOT, Client, Installation

RUN = frozenset({"console", "json", "python", "sh", "cron", "toml"})
SHOWN_ONLY = frozenset({"text", "mermaid", "diff", "ini", "yaml", "http", "markdown", "cron-example"})
SHOWN_PORT = "8765"
"""The port of HTTP in the documents; a test takes one that is free."""
PATIENT = {"INFINITE_MEMORY_MONGODB__TIMEOUT_S": "60"}
"""A first command of a page also waits for MongoDB to start, on however busy a machine."""
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: ([^>]+) -->\s*$")
_SCHEDULE = re.compile(r"^(?:@\w+|\S+ +\S+ +\S+ +\S+ +\S+) +")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code of a page."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text("utf-8")
    name = page.relative_to(ROOT).as_posix()
    made = []
    for fence in _FENCE.finditer(text):
        reason = _NOT_RUN.search(text[: fence.start()])
        line = text.count("\n", 0, fence.start()) + 1
        made.append(Block(name, line, fence[1], fence[2], reason[1] if reason else None))
    return made


def documents() -> list[Path]:
    """Return every page whose blocks are looked at."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


class Session:
    """Carries out the blocks of one page."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._names = Names(installation.home)
        self._client: Client | None = None
        self._reply: tuple[Block, dict[str, Any]] | None = None  # to the request before, not yet compared
        folder = Path(sys.executable).parent
        self._port = free_port()
        self._environ = installation.environ | {"PATH": f"{folder}:{installation.environ['PATH']}", "COLUMNS": "100"}

    def run(self, block: Block, printed: Block | None = None) -> None:
        """Carry out a block; *printed* is the ``text`` block right after a program.

        Raises:
            AssertionError: it failed, or answered otherwise than shown.
        """
        if block.language == "console":
            for command, shown in steps(block.text):
                self._compare(block, command, shown, self.shell(self._names.to_actual(command)))
        elif block.language == "python":
            done = self._process([sys.executable, "-W", "error", "-c", block.text])
            assert done.returncode == 0, f"{block}: {done.stdout}"
            if printed is not None:
                self._compare(block, "the program", printed.text, done.stdout)
        elif block.language in ("sh", "cron"):
            self._run_shell(block)
        elif block.language == "toml":
            tomllib.loads(block.text)
        else:
            self._run_json(block)

    def shell(self, command: str) -> str:
        """Run a command and return all that it prints."""
        done = self._process(["bash", "-c", command.replace(SHOWN_PORT, self._port)])
        return done.stdout.replace(self._port, SHOWN_PORT)

    def _process(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self._environ, cwd=self._installation.home.parent, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * PATIENCE_S, check=False, encoding="utf-8",
        )  # fmt: skip

    def _run_shell(self, block: Block) -> None:
        lines = block.text.splitlines()
        if block.language == "cron":
            jobs = [line for line in lines if line.strip() and not line.startswith("#") and "=" not in line.split()[0]]
            text = "\n".join(_SCHEDULE.sub("", line).split(" | ")[0] for line in jobs)
        else:
            text = block.text
        done = self._process(["bash", "-euc", self._names.to_actual(text)])
        assert done.returncode == 0, f"{block}: {done.stdout}"

    def _run_json(self, block: Block) -> None:
        for value in read_values(block):
            if isinstance(value, dict) and "action" in value:
                self.finish()
                self._client = self._client or self._installation.serve()
                self._client.send(json.loads(self._names.to_actual(json.dumps(value))))
                self._reply = block, self._client.reply()
            elif self._reply is not None:
                (_, reply), self._reply = self._reply, None
                found = differences(value, reply, self._names)
                assert not found, f"{block}: {found}; came: {json.dumps(reply)}"

    def finish(self) -> None:
        """Check the last reply, where the page does not show it: it must be a good one."""
        if self._reply is not None:
            (block, reply), self._reply = self._reply, None
            assert reply["status"] == "OK", f"{block}: {reply}"

    def _compare(self, block: Block, command: str, shown: str, actual: str) -> None:
        assert is_text_alike(shown.rstrip("\n"), actual.rstrip("\n"), self._names), (
            f"{block}: {command}\nshown:\n{shown}\ncame:\n{actual}"
        )


def free_port() -> str:
    """Return the number of a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a ``console`` block with what each prints."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    for part in parts[1:]:
        command, _, shown = re.sub(r"\\\n", "\\\\\n", part).partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command[:-1]} {more.strip()}"
        yield command, shown


def read_values(block: Block) -> list[Any]:
    """Return the JSON values of a block, one after another."""
    decoder, text, values = json.JSONDecoder(), block.text.strip(), []
    while text:
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:].lstrip()
    return values
