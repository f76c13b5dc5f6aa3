"""Set-up of a checkout: virtual environment, locked packages, a MongoDB server, the model. Standard library only.

Called by `scripts/prepare` as ``setup_env.py serve|test STAMP``; STAMP is written when all is ready, so that the next
run has nothing to do. Each step leaves a mark of its own, so an interrupted set-up goes on where it was; where pip may
have left half a package behind, the environment is made anew. Two set-ups at once take turns.

The model is made ready as `infinite-memory setup` does it. torch is installed for `test` alone, whose tests compare with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # isolated mode leaves it out

import trim_env

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = "Scripts" if os.name == "nt" else "bin"
TORCH = "torch==2.13.0"
MODEL = VENV / "share" / "infinite-memory" / "models" / "all-MiniLM-L6-v2"
SECOND_MODEL = MODEL.with_name("universal-sentence-encoder-multilingual-3")
LOG = VENV / "setup.log"
# Not the environment's own interpreter, even when that one runs us: it may be about to be made anew.
BASE_PYTHON: str = getattr(sys, "_base_executable", sys.executable)
HALF_DONE = "setup-unfinished"
HEARTBEAT_S = 5.0
TAIL_LINES = 15
UNWANTED = {"PIP_TARGET", "PIP_PREFIX", "PIP_USER"}
KEPT_AT_RENEWAL = {"setup.lock", "setup.log", "share"}


class SetupError(Exception):
    """A step failed; the message is for the person who waits."""


def main(purpose: str, stamp: str) -> int:
    """Make everything ready for *purpose*, "serve" or "test"; 0 when it is."""
    VENV.mkdir(exist_ok=True)
    ready = VENV / f"ready-{purpose}"
    with lock(VENV / "setup.lock"):
        if ready.is_file() and ready.read_text(encoding="utf-8") == stamp + "\n":
            return 0
        started = time.monotonic()
        say(f"making InfiniteMemory ready in {VENV} (once; details in {LOG.name} there)")
        try:
            make_environment()
            install_packages(purpose)
            has_mongodb = install_mongodb()
            trim_environment()
            has_model = make_model(purpose)  # and so tells that what was left runs
        except SetupError as exc:
            say(str(exc))
            return 1
        except KeyboardInterrupt:
            say("stopped; the next run goes on")
            return 1
        if has_mongodb and has_model:
            ready.write_text(stamp + "\n", encoding="utf-8")
        say(f"ready after {time.monotonic() - started:.0f} s")
    return 0


def make_environment() -> None:
    """Create the virtual environment, or anew when it cannot run or an installation into it was cut short."""
    if works(python(VENV)) and not (VENV / HALF_DONE).exists():
        return
    for entry in VENV.iterdir():
        if entry.name not in KEPT_AT_RENEWAL:
            remove(entry)
    with half_done(VENV):
        run("creating the virtual environment", [BASE_PYTHON, "-m", "venv", str(VENV)])


def install_packages(purpose: str) -> None:
    """Install the locked packages and the project itself."""
    install_lock(VENV, "requirements.lock", "installing packages")
    if purpose == "test":
        install_lock(VENV, "requirements-test.lock", "installing the tests' packages")
        install_torch(VENV)
    with step(VENV, "project", ROOT / "setup.cfg", ROOT / "pyproject.toml") as needed:
        if needed:
            pip(
                VENV,
                "installing InfiniteMemory",
                "--no-deps",
                "--no-build-isolation",
                "--no-index",
                "--editable",
                str(ROOT),
            )


def install_mongodb() -> bool:
    """Install a MongoDB server where there is none, nor one among the packages; False when that failed, which is no reason not to start."""
    if shutil.which("mongod") or os.environ.get("INFINITE_MEMORY_MONGODB__URI"):
        return True
    try:
        install_lock(VENV, "requirements-mongodb.lock", "installing a MongoDB server")
    except SetupError as exc:
        say(f"{exc}\nno MongoDB server: install mongod, or set INFINITE_MEMORY_MONGODB__URI to one that runs")
        return False
    for binary in VENV.rglob("fiftyone/db/bin/mongod"):
        binary.chmod(binary.stat().st_mode | 0o111)
    return True


def trim_environment() -> None:
    """Remove what is installed and never loaded."""
    saved = trim_env.trim(VENV)
    say(f"removed {saved / 1e6:.0f} MB that nothing loads")


def make_model(purpose: str) -> bool:
    """Make the model ready; False when that failed, which is no reason not to start: memories wait for it."""
    precision = "int8" if purpose == "test" else "fp32"  # the tests want both, which the hub's file has not
    prepare = ["-m", "infinite_memory.embedding.prepare", "--to", str(MODEL), "--precision", precision]
    try:
        run("making the model ready", [str(python(VENV)), *prepare])
    except SetupError as exc:
        say(f"{exc}\nno model yet: memories are stored, and found by their words only until a later run makes it")
        return False
    return purpose != "test" or make_second_model()


def make_second_model() -> bool:
    """Make the model of other languages ready, for the tests; who runs the program has it made when the first text needs it."""
    named = ["--model", SECOND_MODEL.name, "--to", str(SECOND_MODEL)]
    try:
        run("making the second model ready", [str(python(VENV)), "-m", "infinite_memory.embedding.prepare", *named])
    except SetupError as exc:
        say(f"{exc}\nno second model: its tests cannot run")
        return False
    return True


def install_lock(venv: Path, name: str, doing: str) -> None:
    """Install what a lock file lists and nothing else; each lock is complete, so nothing is resolved."""
    with step(venv, name, ROOT / name) as needed:
        if needed:
            pip(venv, doing, "--no-deps", "--require-hashes", "--requirement", str(ROOT / name))


def install_torch(venv: Path) -> None:
    """Install torch, in whichever build pip is set up to find."""
    with step(venv, TORCH) as needed:
        if needed:
            pip(venv, f"installing {TORCH} (large; a CPU build is enough, see docs/dependencies.md)", TORCH)


@contextlib.contextmanager
def step(venv: Path, name: str, *inputs: Path) -> Iterator[bool]:
    """Tell whether a step that depends on *inputs* and the checkout's place is still to do, and mark it done when it came to its end."""
    mark = venv / "steps" / name
    digest = hashlib.sha256(b"".join([str(ROOT).encode(), *(one.read_bytes() for one in inputs)])).hexdigest()
    if mark.is_file() and mark.read_text(encoding="ascii") == digest:
        yield False
        return
    yield True
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(digest, encoding="ascii")


@contextlib.contextmanager
def half_done(venv: Path) -> Iterator[None]:
    """Mark *venv* while it is changed. Only an interruption leaves the mark: what fails by itself tidies up itself."""
    mark = venv / HALF_DONE
    mark.touch()
    try:
        yield
    except SetupError:
        mark.unlink(missing_ok=True)
        raise
    mark.unlink(missing_ok=True)


def pip(venv: Path, doing: str, *arguments: str) -> None:
    """Install with the environment's own pip."""
    # Python compiles what it imports when it first does; of all that is installed that is a third.
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--no-compile"]
    with half_done(venv):
        run(doing, [str(python(venv)), "-m", "pip", "install", *options, *arguments])


def run(doing: str, command: Sequence[str]) -> None:
    """Run *command* with its output in the log, telling every few seconds that it still runs.

    Raises:
        SetupError: it failed; carries the end of its output.
    """
    say(f"{doing} …")
    started = time.monotonic()
    # Settings that would send packages elsewhere, or import other code than the checkout's.
    environment = {
        name: value for name, value in os.environ.items() if name not in UNWANTED and not name.startswith("PYTHON")
    } | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    if "pip" in command:  # it runs once: what it compiles of itself is 8 MB
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with LOG.open("ab") as log:
        log.write(f"\n== {doing}: {' '.join(command)}\n".encode())
        log.flush()
        begin = log.tell()
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=VENV, close_fds=False
        ) as process:
            try:
                while True:
                    try:
                        code = process.wait(HEARTBEAT_S)
                        break
                    except subprocess.TimeoutExpired:
                        say(f"  … {time.monotonic() - started:.0f} s{pip_progress(begin)}")
            except BaseException:
                process.terminate()
                raise
    if code:
        lines = LOG.read_bytes()[begin:].decode("utf-8", "replace").strip().splitlines()
        tail = "\n" + "\n".join(f"    {line}" for line in lines[-TAIL_LINES:])
        raise SetupError(f"{doing} failed{tail}")


def pip_progress(begin: int) -> str:
    """Read from the log, from byte *begin* on, what pip is at; empty for a command that is not pip."""
    written = LOG.read_bytes()[begin:]
    if b"\nInstalling collected packages" in written:
        return ", unpacking"
    found = re.findall(rb"^Collecting ([^\s;]+)", written, re.MULTILINE)
    return f", at {found[-1].decode('utf-8', 'replace')}" if found else ""


def python(venv: Path) -> Path:
    """Name the interpreter of an environment."""
    return venv / BIN / ("python.exe" if os.name == "nt" else "python")


def works(interpreter: Path) -> bool:
    """Tell whether *interpreter* runs, is new enough and has pip: the Python that it was made from may be gone."""
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([str(interpreter), "-I", "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold *path* locked; a second set-up waits here.

    Child processes inherit the lock, so that a pip which outlives a killed set-up is waited for.
    """
    with path.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            os.set_inheritable(file.fileno(), True)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another set-up is running; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Tell the person who waits. Standard output belongs to the protocol."""
    for line in text.splitlines():
        print(f"set-up: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1], sys.argv[2]))
