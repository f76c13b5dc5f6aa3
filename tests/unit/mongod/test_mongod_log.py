"""Why a mongod ended, as its log and what it printed tell."""

from __future__ import annotations

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
