"""What is printed for people: nothing stored moves the cursor, rings the bell or turns letters round."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path

import pytest

from infinite_memory.cli import main
from infinite_memory.cli.terminal import Printed, in_one_line, printing_safely, raw
from infinite_memory.errors import InvalidRequestError, check_printable, escaped

CLI = Path(__file__).resolve().parents[3] / "infinite_memory" / "cli"
ODD = (
    "\x1b[2J",
    "\x07",
    "\x9b31m",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u061c",
    "\r",
    "\x7f",
    "\x00",
    "\x85",
    "\u2028",
    "\ud800",
    "\b",
)
CONTROLS = "\x1b[2J", "\x07", "\x9b31m", "\r", "\x7f", "\x85", "\u2028", "\ud800", "\b"
"""Those that no new name may hold; NUL and marks of direction may stand in one, and are shown by their numbers."""


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_what_a_terminal_would_carry_out_is_written_as_its_number(odd: str) -> None:
    written = escaped(f"a{odd}b")
    assert written.startswith(f"a\\u{ord(odd[0]):04x}")
    assert written.isprintable()
    if odd in CONTROLS:
        with pytest.raises(InvalidRequestError, match=r"scope: .* control character"):
            check_printable(f"a{odd}b", "scope")
    else:
        check_printable(f"a{odd}b", "scope")


def test_words_in_every_script_stay_as_they_are() -> None:
    for text in (
        "Ärger",
        "日本語",
        "שלום",
        "فارسی\u200cها",
        "👩\u200d💻",
        "🏴\U000e0067\U000e0062\U000e007f",
        "e\u0301",
        "a\nb\tc",
    ):
        assert escaped(text) == text
    for name in ("Ärger & Co/1", "שלום", "فارسی\u200cها", "👩\u200d💻", "null\u00a0"):
        check_printable(name, "scope")
    assert in_one_line("a\nb\tc\x1b") == "a\\nb\\tc\\u001b"


def test_json_that_is_printed_keeps_its_meaning() -> None:
    value = {"scope": "".join(ODD), "text": "x\u202ey"}
    stream = io.StringIO()
    print(json.dumps(value, ensure_ascii=False), file=Printed(stream))
    assert json.loads(stream.getvalue()) == value
    assert "\u202e" not in stream.getvalue()


def test_everything_printed_by_a_command_passes_through(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with printing_safely():
        print("out\x1b")
        print("err\x1b", file=sys.stderr)
        assert raw(sys.stdout) is before[0]
    assert (sys.stdout, sys.stderr) == before
    said = capsys.readouterr()
    assert (said.out, said.err) == ("out\\u001b\n", "err\\u001b\n")
    assert main(["daemon", "run", "--set", "no\x1b[31mthing=1"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_no_command_writes_past_the_escaping_but_where_bytes_are_meant() -> None:
    """Tables and bars are drawn with controls of their own on the stream below; what stands in them is escaped first."""
    for file in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "raw":
                assert file.name in {"terminal_table.py", "progress.py"}, file.name
            if isinstance(node, ast.Attribute) and node.attr == "buffer" and ast.unparse(node.value) != "sys.stdin":
                assert file.name == "export.py", file.name
