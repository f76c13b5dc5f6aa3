"""Hooks where a machine is at its end: a transcript of half a gigabyte, and a disk that is really full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook_sessions import new_session, wait_for
from tests.processes import LONG, Installation, need_parts, until

pytestmark = pytest.mark.skipif(not LONG, reason="takes half a gigabyte of disk: scripts/test --long")

EXCHANGES, OUTPUT_BYTES = 100, 5_000_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Installation]:
    need_parts()
    with Installation(tmp_path / "home") as one:
        assert one.command("daemon", "start").returncode == 0
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


def test_a_transcript_of_half_a_gigabyte_is_read_and_holds_nobody_up(memory: Installation) -> None:
    session = new_session(memory, "huge")
    output = "a line of a log\n" * (OUTPUT_BYTES // 16)
    for number in range(EXCHANGES):
        session.say(f"huge question {number}", f"huge answer {number}")
        session.write(session.entry("user", [{"type": "tool_result", "tool_use_id": "t", "content": output}]))
    assert session.transcript.stat().st_size > 500_000_000
    assert session.run(memory, "Stop") == ""
    assert memory.call("ping")["status"] == "OK"
    assert session.run(memory, "UserPromptSubmit", prompt="Which question was asked about the moon?") == ""
    spool = memory.home / "hooks" / "spool"
    until(lambda: not list(spool.glob("*.json")), "all of it is read", 600)
    texts = [one["text"] for one in wait_for(memory, session, 2 * EXCHANGES)]
    assert len(texts) == len(set(texts)) == 2 * EXCHANGES


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small disk: Linux, as root")
def test_a_full_disk_fails_no_session_and_loses_nothing(memory: Installation) -> None:
    """The hooks' own files lie on a disk of their own, which is filled to the last byte."""
    session = new_session(memory, "full-disk")
    session.say("said before", "yes")
    session.run(memory, "Stop")
    wait_for(memory, session, 2)
    folder = memory.home / "hooks"
    saved = {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(folder)], check=True)
    try:
        for name, data in saved.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        fill(folder / "ballast")
        session.say("said on a full disk", "I hear you")
        for event in ("UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"):
            assert session.run(memory, event) == "", event
        (folder / "ballast").unlink()
        session.say("said when there was room again", "fine")
        assert session.run(memory, "Stop") == ""
        texts = [one["text"] for one in wait_for(memory, session, 6)]
        assert sorted(texts) == sorted(set(texts))
        assert "said on a full disk" in texts
        checks = json.loads(memory.command("doctor", "--json").stdout)["checks"]
        assert [check for check in checks if check["check"] == "hooks claude-code"]
    finally:
        memory.command("daemon", "stop")
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    """Write until the disk has no room for another byte."""
    with file.open("wb", buffering=0) as out:
        for size in (65536, 4096, 1):
            try:
                while True:
                    out.write(b"x" * size)
            except OSError:
                continue
