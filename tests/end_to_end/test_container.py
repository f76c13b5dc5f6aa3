"""The steps of the Dockerfile in a Debian root that debootstrap makes, and the daemon in it, asked from outside.

Where no registry of images can be reached this stands for building and running the image. It needs root, debootstrap and some
minutes, so it runs with ``--long`` alone. A root and not a container: processes and network are the machine's own.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import LONG, ROOT, until

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not LONG, reason="takes minutes; scripts/test --long runs it"),
    pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        shutil.which("debootstrap") is None, reason="debootstrap is missing (apt-get install debootstrap)"
    ),
]

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SUITES = {"debian:bookworm-slim": "bookworm"}


class Image:
    """A root folder in which the steps of a Dockerfile are carried out; it knows the instructions that ours has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self.user, self.folder = "root", "/"
        self.entry: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []

    def build(self, dockerfile: Path) -> None:
        """Carry out every instruction."""
        for name, rest in instructions(dockerfile.read_text("utf-8")):
            getattr(self, f"_{name.lower()}")(rest)

    def prefix(self) -> list[str]:
        """What runs a command inside, as the user and in the folder of this moment."""
        variables = [f"{name}={value}" for name, value in self.environ.items()]
        groups = f"--userspec={self.user}:{self.user}"
        return ["chroot", groups, str(self.root), "/usr/bin/env", "-i", "-C", self.folder, *variables]

    def _from(self, rest: str) -> None:
        made = ["debootstrap", "--variant=minbase", SUITES[rest], str(self.root)]
        done = subprocess.run(made, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        subprocess.run(["mount", "-t", "proc", "proc", str(self.root / "proc")], check=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc" / "resolv.conf")
        (self.root / "etc" / "outer.crt").write_bytes(CERTIFICATES.read_bytes())  # how this machine reaches the index
        self.environ |= {name: "/etc/outer.crt" for name in ("PIP_CERT", "SSL_CERT_FILE")}
        for file in Path("/etc/apt/apt.conf.d").glob("*proxy*"):
            shutil.copy(file, self.root / "etc" / "apt" / "apt.conf.d")

    def _run(self, rest: str) -> None:
        done = subprocess.run([*self.prefix(), "sh", "-c", rest], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{rest}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def _copy(self, rest: str) -> None:
        *sources, target = rest.split()
        folder = self.root / self.folder.lstrip("/") / target
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, folder, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, folder)

    def _env(self, rest: str) -> None:
        self.environ |= dict(pair.split("=", 1) for pair in shlex.split(rest))

    def _user(self, rest: str) -> None:
        self.user = rest
        self.environ["HOME"] = f"/home/{rest}"

    def _workdir(self, rest: str) -> None:
        self.folder = rest
        (self.root / rest.lstrip("/")).mkdir(exist_ok=True)

    def _healthcheck(self, rest: str) -> None:
        self.health = json.loads(rest[rest.index("[") :])

    def _entrypoint(self, rest: str) -> None:
        self.entry = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        self.command = json.loads(rest)

    def _volume(self, rest: str) -> None:
        assert (self.root / rest.lstrip("/")).is_dir()

    def _stopsignal(self, rest: str) -> None:
        assert rest == "SIGTERM"


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, comments left out and continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    made = Image(tmp_path_factory.mktemp("image") / "root")
    try:
        made.build(ROOT / "Dockerfile")
        yield made
    finally:
        subprocess.run(["umount", str(made.root / "proc")], check=False, capture_output=True)


def test_the_daemon_of_the_image_answers_over_http_and_stops_in_order(image: Image) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    image.environ["INFINITE_MEMORY_HTTP__PORT"] = str(port)
    assert image.user == "memory"
    with subprocess.Popen([*image.prefix(), *image.entry, *image.command]) as daemon:
        try:
            until(lambda: subprocess.run([*image.prefix(), *image.health], capture_output=True, check=False).returncode == 0,
                  "the health check passes")  # fmt: skip
            token = (image.root / "memory" / "http.token").read_text().strip()
            url = f"http://127.0.0.1:{port}/api/v1/memories"
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            stored = urllib.request.Request(url, b'{"content": "My favorite color is blue"}', headers, method="POST")
            with urllib.request.urlopen(stored, timeout=60) as reply:
                assert reply.status in (200, 201)
            asked = '{"query": "which hue do I prefer?"}'
            call = [*image.prefix(), "infinite-memory", "call", "retrieve_memory", asked]
            found = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
            assert found["results"][0]["text"] == "My favorite color is blue"
            assert "note" not in found
        finally:
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(120) == 0
    assert (image.root / "memory").stat().st_mode & 0o777 == 0o700
    assert not (image.root / "memory" / "daemon.json").exists()
