"""Daemon and set-up import the package and what is installed, nothing that lies beside whoever starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, Installation

SCRIPT = """\
from infinite_memory import Memory
with Memory() as memory:
    assert memory.add("tea at noon").memory_id
"""
NAMES = ("limits", "pip", "json5", "numpy", "faiss", "yaml", "pymongo", "sitecustomize")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder of modules that leave a mark where they are imported."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in NAMES:
        mark = f"import os; open({str(tmp_path / name)!r} + str(os.getpid()), 'w').close()\n"
        (folder / f"{name}.py").write_text(mark + "raise ImportError('this is not the one')\n")
    return folder


def marks(tmp_path: Path) -> list[str]:
    return [file.name for file in tmp_path.iterdir() if file.name.startswith(NAMES)]


def test_what_lies_beside_a_script_of_the_sdk_does_not_run_in_the_daemon(
    installation: Installation, trap: Path, tmp_path: Path
) -> None:
    (trap / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import site, sys; sys.path.insert(0, {str(trap)!r}); site.main(); exec(open('script.py').read())"],
        cwd=trap, env=installation.environ | {"PYTHONPATH": f"{ROOT}:{trap}", "PYTHONSTARTUP": str(trap / "pip.py")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [one for one in marks(tmp_path) if not one.startswith("sitecustomize")] == []
    pid = installation.daemon_pid()
    assert pid is not None
    assert marks(tmp_path) == [] or str(pid) not in "".join(marks(tmp_path))
    assert installation.call("health_check")["checks"]["mongodb"] == "ok"
    environ = Path(f"/proc/{installation.mongod_pid()}/environ").read_bytes()
    assert b"PYTHON" not in environ


def test_a_variable_of_other_programs_does_not_reach_mongodb(installation: Installation) -> None:
    installation.environ["SOME_API_KEY"] = "sk-12345"
    assert installation.call("get_memory_stats")["status"] == "OK"
    assert b"sk-12345" not in Path(f"/proc/{installation.mongod_pid()}/environ").read_bytes()


def test_set_up_runs_pip_and_not_what_lies_beside(trap: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from pathlib import Path
import setup_env
setup_env.VENV = Path({str(tmp_path)!r})
setup_env.LOG = setup_env.VENV / "setup.log"
setup_env.run("pip", [sys.executable, "-m", "pip", "--version"])
assert setup_env.works(Path(sys.executable))
"""
    environ = os.environ | {"PYTHONPATH": str(trap)}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=trap, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert marks(tmp_path) == []
    for script in ("prepare", "serve"):
        assert "PYTHON" in (ROOT / "scripts" / script).read_text()
