"""Runs a program on a terminal, as a person does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.processes import PATIENCE_S


def run_on_terminal(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    typed: str = "",
    cwd: Path | None = None,
    timeout_s: float = PATIENCE_S,
) -> tuple[int, str]:
    """Run *command* on a terminal of its own, where *typed* is typed; returns exit code and all that was shown."""
    import pty

    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            command, env=dict(environ), stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, start_new_session=True
        )
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end was closed
                break
            if not piece:
                break
            shown += piece
        return process.wait(timeout=timeout_s), shown.decode("utf-8", "surrogateescape")
    finally:
        os.close(ours)
