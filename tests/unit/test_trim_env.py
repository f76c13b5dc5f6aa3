"""`scripts/trim_env.py`: what nobody loads is removed from an environment, and a program without its symbols still runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import trim_env

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ELF files are Linux's")


def test_a_program_runs_without_what_follows_its_segments(tmp_path: Path) -> None:
    """Any program of the system does: some debug information is put behind it where its own was removed."""
    program = tmp_path / "program"
    whole = Path(shutil.which("git") or "git").resolve().read_bytes()
    program.write_bytes(whole + b"symbols" * 1000)
    program.chmod(0o755)
    said = subprocess.run([program, "--version"], capture_output=True, check=True).stdout
    assert trim_env.drop_symbols(program) >= 7000
    assert subprocess.run([program, "--version"], capture_output=True, check=True).stdout == said
    assert trim_env.drop_symbols(program) == 0, "there is nothing left to remove"
    assert [entry.name for entry in tmp_path.iterdir()] == ["program"]


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 58, b"#!/bin/sh\necho 1\n"]
)
def test_what_is_no_program_of_that_kind_is_left_alone(tmp_path: Path, content: bytes) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    assert trim_env.drop_symbols(program) == 0
    assert program.read_bytes() == content


def test_an_environment_keeps_what_is_loaded(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    kept = ["numpy/_core/a.so", "onnxruntime/capi/onnxruntime_pybind11_state.so", "mine/tests/test_a.py"]
    removed = ["numpy/_core/tests/b.py", "onnxruntime/capi/libonnxruntime.so.1.32.0", "pip/_vendor/__pycache__/c.pyc"]
    for name in (*kept, *removed):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_bytes(b"1234")
    assert trim_env.trim(tmp_path) == 4 * len(removed)
    assert sorted(str(file.relative_to(packages)) for file in packages.rglob("*") if file.is_file()) == sorted(kept)
    assert trim_env.trim(tmp_path) == 0


def test_what_cannot_be_removed_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may remove anything, so the test takes the rights of another user; it works from inside, for it may not come in."""
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    kept, removed = (
        packages / "onnxruntime" / "capi" / "libonnxruntime.so.1",
        packages / "pip" / "__pycache__" / "a.pyc",
    )
    for file in (kept, removed):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"1234")
    for folder in (tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())):
        folder.chmod(0o777)
    kept.parent.chmod(0o555)
    monkeypatch.chdir(tmp_path)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        assert trim_env.trim(Path()) == 4
    finally:
        os.seteuid(user)
        kept.parent.chmod(0o755)
    assert kept.exists()
    assert not removed.exists()
