"""Another user of this machine: short programs of the standard library that run as one, to try what a neighbour could."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

NAME = "nobody"
_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or os.path.realpath(sys.executable)


def need_second_user() -> None:
    """Skip on a desk, and fail in CI, where no program can be started as another user."""
    if _prefix() is not None:
        return
    if os.environ.get("CI"):
        pytest.fail("no second user: run as root, or allow `sudo -n -u nobody`")
    pytest.skip("no second user: the tests do not run as root")


def _prefix() -> list[str] | None:
    """Return what starts a program as the second user; [] where it is root that changes the user."""
    with contextlib.suppress(KeyError, OSError):
        uid = pwd.getpwnam(NAME).pw_uid
        if os.geteuid() == 0 and uid != 0:
            return []
        sudo = ["sudo", "-n", "-u", NAME]
        if subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode == 0:
            return sudo
    return None


class Neighbour:
    """A Python program that runs as the second user; it says "ready", goes on, and ends when its input does."""

    def __init__(self, code: str, *arguments: object) -> None:
        prefix = _prefix()
        assert prefix is not None
        entry = pwd.getpwnam(NAME)
        account = {} if prefix else {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.process = subprocess.Popen(
            [*prefix, _PYTHON, "-I", "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", text=True, env={"PATH": os.defpath}, **account,
        )  # fmt: skip

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.strip() == "ready", line
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, timeout_s: float = 60) -> str:
        """Close the program's input and return what it wrote since it was ready."""
        return self.process.communicate(timeout=timeout_s)[0]


def run_as_neighbour(code: str, *arguments: object) -> str:
    """Run a program as the second user to its end and return what it wrote."""
    with Neighbour(f"print('ready', flush=True)\n{code}", *arguments) as neighbour:
        return neighbour.end()


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a folder in which everybody may make files and nobody may remove those of others, as /tmp is."""
    folder = Path(tempfile.mkdtemp(prefix="im-", dir="/tmp"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


LISTEN = """
import os, select, socket, sys
kind, address, reply = sys.argv[1:4]
if kind == "unix":
    os.makedirs(os.path.dirname(address), exist_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    os.chmod(address, 0o777)
    os.chmod(os.path.dirname(address), 0o777)
else:
    server = socket.create_server(("127.0.0.1", int(address)))
server.listen(100)
print("ready", flush=True)
links, said = [], b""
while True:
    for link in select.select([0, server, *links], [], [])[0]:
        if link == 0:
            print(said.decode("latin-1"), flush=True)
            sys.exit()
        elif link is server:
            links.append(server.accept()[0])
        else:
            data = link.recv(65536)
            said += data
            if data and reply:
                link.sendall(reply.encode().decode("unicode_escape").encode())
            if not data:
                links.remove(link)
                link.close()
"""
"""Listens at a Unix socket or a port (argv: kind, address, reply to whatever comes) and tells at its end all that it was told."""

HOLD = """
import select, socket, sys
port, count, said = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode()
links = []
for _ in range(count):
    link = socket.socket()
    link.settimeout(5)
    try:
        link.connect(("127.0.0.1", port))
        link.sendall(said)
        links.append(link)
    except OSError:
        link.close()
print("ready", flush=True)
sys.stdin.read()
print(len(links))
"""
"""Opens connections to a port (argv: port, count, what is said on each) and holds them until its input ends."""
