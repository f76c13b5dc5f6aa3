"""Log lines: what happened is named behind the sentence."""

from __future__ import annotations

import logging
import sys

from infinite_memory.logs import EventFormatter

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
