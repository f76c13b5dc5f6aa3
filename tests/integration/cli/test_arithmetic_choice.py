"""`setup --fastest`: a new home gets the arithmetic that pays here, a home in use keeps its own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.cli import main
from infinite_memory.embedding.arithmetic import Comparison
from infinite_memory.embedding.verification import FidelityReport
from tests.processes import need_parts


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_parts()
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path / "memory"))
    monkeypatch.delenv("INFINITE_MEMORY_MONGODB__URI", raising=False)
    return tmp_path / "memory"


def set_up(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `setup --fastest` and return what programs are told of the arithmetic."""
    assert main(["setup", "--fastest", "--quiet", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["arithmetic"]


@pytest.mark.parametrize(
    ("int8_ms", "lowest", "choice"),
    [(5.0, 0.985, "int8"), (9.0, 0.985, "fp32"), (5.0, 0.9, "fp32"), (20.0, 0.99, "fp32")],
)
def test_int8_is_taken_where_it_is_much_faster_and_the_same_model(int8_ms: float, lowest: float, choice: str) -> None:
    report = FidelityReport("all-MiniLM-L6-v2/384/int8", 5, lowest, 0.95)
    assert Comparison(10.0, int8_ms, report).choice == choice


def test_a_new_home_gets_what_was_measured_and_keeps_it(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = set_up(capsys)
    assert told["ready"]
    assert told["used"] == told["measured"]
    file = memory / "config.toml"
    written = tomllib.loads(file.read_text("utf-8"))["embedding"]["precision"] if file.is_file() else "fp32"
    assert written == told["measured"]


def test_a_home_in_use_keeps_its_space(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (memory / "mongodb").mkdir(parents=True)
    (memory / "mongodb" / "WiredTiger").touch()
    assert set_up(capsys)["used"] == "fp32"
    assert not (memory / "config.toml").exists()


def test_settings_that_the_user_wrote_stay_as_they_are(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory.mkdir()
    own = '[embedding]\nsecond_model = "off"\n'
    (memory / "config.toml").write_text(own, "utf-8")
    assert set_up(capsys)["used"] == "fp32"
    assert (memory / "config.toml").read_text("utf-8") == own
