"""The MongoDB of ``compose.yaml``, started by the file's own words without Docker: who reaches it, and who does not.

The script runs in a network of its own, as ``network_mode: none`` gives one, with the volumes as folders. Its user is the image's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from infinite_memory.mongod.binary import find_binary
from tests.processes import ROOT, Installation, until

NEIGHBOUR = 65534
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
USER = int(re.findall(r"--uid (\d+)", (ROOT / "Dockerfile").read_text("utf-8"))[0])
HAS_NAMESPACES = (
    os.name == "posix"
    and os.geteuid() == 0
    and shutil.which("setpriv") is not None
    and shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0
)

pytestmark = pytest.mark.skipif(not HAS_NAMESPACES, reason="needs root, setpriv and unshare")

UP = "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 0x49))"
"""Brings loopback up, as Docker does."""

ASK = """\
import asyncio, os, sys
from pathlib import Path
from infinite_memory.mongod import wire
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
print(asyncio.run(wire.ask(Path(sys.argv[1]), {"hello": 1})).is_true("isWritablePrimary"))
"""


def ask(path: Path, user: int) -> subprocess.CompletedProcess[str]:
    """Ask the server at a socket whether it takes writes, as another user."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ASK, str(path), str(user)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)


@pytest.fixture
def socket_file(tmp_path: Path) -> Iterator[Path]:
    """The socket of a MongoDB that the compose file's script started."""
    service = COMPOSE["mongodb"]
    assert service["network_mode"] == "none"
    assert "ports" not in service
    base = (
        Path("/tmp") / f"compose-{os.getpid()}"
    )  # a short path, for sockets; open to all, as a careless host's would be
    base.mkdir(mode=0o755)
    try:
        [script] = service["command"]
        for name in ("/data/db", "/run/mongodb"):
            (base / name.replace("/", "-").strip("-")).mkdir(mode=0o777)
            script = script.replace(name, str(base / name.replace("/", "-").strip("-")))
        binary = base / "mongod"
        shutil.copy(find_binary(), binary)
        binary.chmod(0o755)
        script = script.replace(" mongod ", f" {binary} ")
        command = ["unshare", "-n", "sh", "-c", f'{shlex.join([sys.executable, "-c", UP])} && exec "$@"', "sh"]
        with (
            (base / "out").open("wb") as out,
            subprocess.Popen([*command, *service["entrypoint"], script], stdout=out, stderr=out) as server,
        ):
            try:
                path = base / "run-mongodb" / "mongodb-27017.sock"
                until(lambda: server.poll() is not None or ask(path, USER).returncode == 0, "it answers")
                assert server.poll() is None, (base / "out").read_text()
                initiate = (
                    "import asyncio, sys; from pathlib import Path; from infinite_memory.mongod import wire;"
                    "asyncio.run(wire.ask(Path(sys.argv[1]), {'replSetInitiate': {'_id': 'memory', 'members':"
                    " [{'_id': 0, 'host': '127.0.0.1:27017'}]}}))"
                )
                subprocess.run([sys.executable, "-c", initiate, str(path)], check=True, cwd=ROOT)
                until(lambda: "True" in ask(path, USER).stdout, "it takes writes")
                yield path
            finally:
                server.terminate()
                assert server.wait(60) == 0
    finally:
        shutil.rmtree(base)


def test_no_other_user_reaches_the_mongodb_of_the_compose_file(socket_file: Path, tmp_path: Path) -> None:
    """And the memory works by the address that the file gives it."""
    assert USER == 10001
    assert f"--uid {USER} " in (ROOT / "Dockerfile").read_text("utf-8")
    uri = COMPOSE["memory"]["environment"]["INFINITE_MEMORY_MONGODB__URI"].replace(
        quote("/run/mongodb", safe=""), quote(str(socket_file.parent), safe="")
    )
    assert quote(str(socket_file), safe="") in uri
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_MONGODB__URI": uri}) as memory:
        assert memory.call("store_memory", content="My doctor is Ms Okafor")["status"] == "OK"
        assert socket_file.stat().st_uid == USER
        assert socket_file.stat().st_mode & 0o777 == 0o700
        assert socket_file.parent.stat().st_mode & 0o777 == 0o700
        refused = ask(socket_file, NEIGHBOUR)
        assert refused.returncode != 0
        assert "PermissionError" in refused.stderr
        with socket.socket() as client:  # root even: the port is in another network
            assert client.connect_ex(("127.0.0.1", 27017)) != 0
        assert memory.call("list_memories", scope="ALL")["results"][0]["text"] == "My doctor is Ms Okafor"
