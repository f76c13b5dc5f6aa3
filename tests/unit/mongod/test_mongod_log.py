"""Why a mongod ended, as its log and what it printed tell."""

from __future__ import annotations

import json
from pathlib import Path

from infinite_memory.mongod.log import MongodLog

ROUTINE = '{"t":{"$date":"2026-11-30T01:05:03Z"},"s":"I","c":"STORAGE","id":22293,"msg":"Engine custom option","attr":{"option":"log"}}\n'


def test_a_server_that_was_killed_is_not_told_to_have_ended_for_a_line_of_its_start(tmp_path: Path) -> None:
    log = MongodLog(tmp_path)
    log.printed.write_text(ROUTINE)
    assert log.last_words(tmp_path) == f"it did not say why; see {log.file}"


def test_what_a_server_printed_before_it_had_a_log_is_told(tmp_path: Path) -> None:
    log = MongodLog(tmp_path)
    log.printed.write_text(f"libcrypto.so.3: cannot open shared object file\n{ROUTINE}")
    assert log.last_words(tmp_path) == "libcrypto.so.3: cannot open shared object file"


def test_an_error_in_the_log_goes_before_what_was_printed(tmp_path: Path) -> None:
    log = MongodLog(tmp_path)
    log.file.write_text('{"s":"E","id":1,"msg":"Failed to open","attr":{"error":"no leave"}}\n')
    log.printed.write_text(ROUTINE)
    assert log.last_words(tmp_path) == "Failed to open no leave"


def wired_tiger(code: int, said: str) -> str:
    """Write a line of the log that tells of an error of MongoDB's storage engine."""
    message = {"msg": "__posix_open_file:812:handle-open: open", "error_str": said, "error_code": code}
    entry = {"s": "E", "id": 22435, "msg": "WiredTiger error message", "attr": {"error": code, "message": message}}
    return f"{json.dumps(entry)}\n"


ABORT = (
    '{"s":"F","id":23089,"msg":"Fatal assertion","attr":{"msgid":50853}}\n'
    '{"s":"F","id":23090,"msg":"\\n\\n***aborting after fassert() failure\\n\\n"}\n'
    '{"s":"F","id":6384300,"msg":"Writing fatal message","attr":{"message":"Got signal: 6 (Aborted).\\n"}}\n'
    '{"s":"E","id":31430,"msg":"Error collecting stack trace","attr":{"error":"unw_get_proc_name(55FE): unspecified"}}\n'
)


def test_a_stack_trace_is_no_reason(tmp_path: Path) -> None:
    log = MongodLog(tmp_path)
    panic = wired_tiger(-31804, "WT_PANIC: WiredTiger library panic")
    log.file.write_text(f"{wired_tiger(5, 'Input/output error')}{panic}{ABORT}")
    assert log.last_words(tmp_path) == "__posix_open_file:812:handle-open: open: Input/output error"
    log.file.write_text(ABORT)
    assert log.last_words(tmp_path) == f"it did not say why; see {log.file}"


def test_too_many_open_files_are_told_with_what_to_raise(tmp_path: Path) -> None:
    log = MongodLog(tmp_path)
    log.file.write_text(f"{wired_tiger(24, 'Too many open files')}{ABORT}")
    assert log.last_words(tmp_path).startswith("Too many open files; raise the hard limit of open files (ulimit -n")
