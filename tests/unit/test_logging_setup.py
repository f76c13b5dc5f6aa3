"""Log lines: what happened is named behind the sentence."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from infinite_memory.logging_setup import EventFormatter
from infinite_memory.paths import Home

FORMATTER = EventFormatter("%(levelname)s %(message)s")


def record(**extra: object) -> logging.LogRecord:
    """Make a log record."""
    return logging.makeLogRecord({"levelname": "INFO", "msg": "the index is %s", "args": ("built",), **extra})


def test_an_event_is_shown_where_there_is_one() -> None:
    assert FORMATTER.format(record(event="index_built")) == "INFO the index is built event=index_built"
    assert FORMATTER.format(record()) == "INFO the index is built"


def test_a_traceback_comes_after_the_event() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        lines = FORMATTER.format(record(event="failed", exc_info=sys.exc_info())).splitlines()
    assert lines[0].endswith("event=failed")
    assert lines[-1] == "ValueError: no"


PRINTS = """\
import pathlib, sys
from infinite_memory.paths import Home
from infinite_memory.logging_setup import bound_printed
home = Home(pathlib.Path(sys.argv[1]), True)
for number in range(int(sys.argv[2])):
    print("x" * 999, file=sys.stderr if number % 2 else sys.stdout, flush=True)
    bound_printed(home, limit_bytes=10_000)
print("the last words", file=sys.stderr)
"""


def printed_by(home: Path, lines: int, into: Path) -> None:
    with into.open("wb") as file:
        command = [sys.executable, "-c", PRINTS, str(home), str(lines)]
        subprocess.run(command, stdout=file, stderr=file, check=True, timeout=60)


def test_what_is_printed_stays_small_and_its_end_is_kept(tmp_path: Path) -> None:
    logs = Home(tmp_path, True).logs
    logs.mkdir()
    printed_by(tmp_path, 100, logs / "daemon.out")
    assert {one.name for one in logs.iterdir()} == {"daemon.out", "daemon.out.1"}
    assert all(one.stat().st_size < 12_000 for one in logs.iterdir())
    assert (logs / "daemon.out").read_text().endswith("the last words\n")


def test_what_is_printed_stays_small_where_no_file_can_be_opened(tmp_path: Path) -> None:
    logs = Home(tmp_path, True).logs
    logs.mkdir()
    no_files = "import resource, zoneinfo\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
    with (logs / "daemon.out").open("wb") as file:
        code = PRINTS.replace("home = ", no_files + "home = ", 1)
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), "100"], stdout=file, stderr=file, check=True, timeout=60
        )
    assert {one.name for one in logs.iterdir()} == {"daemon.out"}
    assert (logs / "daemon.out").stat().st_size < 12_000
    assert (logs / "daemon.out").read_bytes().endswith(b"the last words\n")


def test_what_is_printed_elsewhere_is_left_alone(tmp_path: Path) -> None:
    logs = Home(tmp_path, True).logs
    logs.mkdir()
    (logs / "daemon.out").write_text("y" * 50_000)
    printed_by(tmp_path, 30, tmp_path / "elsewhere")
    assert (logs / "daemon.out").stat().st_size == 50_000
    assert (tmp_path / "elsewhere").stat().st_size > 30_000


def test_what_is_logged_cannot_look_like_another_record() -> None:
    """Found by a hostile reading: the name of a file wrote a line of its own."""
    formatter = EventFormatter("%(asctime)s %(message)s")
    forged = "x\n2026-01-01 00:00:00,000 INFO all is well\r\x1b[2K\u2028\u202eend"
    try:
        raise ValueError(forged)
    except ValueError:
        record = logging.LogRecord("a", logging.INFO, "", 1, "refused %s", (forged,), sys.exc_info())
    text = formatter.format(record)
    assert not any(one in text for one in "\r\x1b\u2028\u202e")
    assert text.split("\n")[0].endswith("INFO all is well\\r\\x1b[2K\\u2028\\u202eend")
    assert not [line for line in text.split("\n")[1:] if line.startswith("2026-")]
