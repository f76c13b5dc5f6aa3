"""Prepare a model: run `prepare` as a separate process, follow its progress, and stop it on request.

A separate process, because writing a model takes 400 MB of RAM that Python would not release, and because it can safely be killed at any
time. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from infinite_memory.errors import EmbeddingError

Told = Callable[[str, int], None]

_STOP_S = 10.0


class Preparation:
    """The preparation of one model. `run` is called from one thread, the rest from any."""

    def __init__(self, model: str, target: Path, *, precision: str = "fp32") -> None:
        self.model, self.target, self._precision = model, target, precision
        self.percent = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def run(self, on_progress: Told | None = None) -> None:
        """Return once the model is ready; *on_progress* is called with the step and the overall progress in percent.

        Raises:
            EmbeddingError: it could not be prepared, or was stopped.
        """
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            with self._lock:
                if self._stopped:
                    raise EmbeddingError("making the model ready was stopped")
                process = self._process = subprocess.Popen(
                    self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                    encoding="utf-8", errors="replace", start_new_session=os.name == "posix",
                )  # fmt: skip
            try:
                self._follow(process, on_progress)
            finally:
                self._end(process)
            if process.returncode:
                errors.seek(0)
                lines = [line for line in errors.read().splitlines() if line.strip()]
                reason = "stopped" if self._stopped else lines[-1] if lines else f"exit code {process.returncode}"
                raise EmbeddingError(f"the model {self.model!r} could not be made ready ({reason})")

    def stop(self) -> None:
        """Terminate the process, if one is running; `run` raises from then on."""
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()  # it exits when its input closes, and takes the installer along

    def _follow(self, process: subprocess.Popen[str], on_progress: Told | None) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                progress = json.loads(line)
                step, self.percent = str(progress["step"]), int(progress["percent"])
            except (ValueError, KeyError, TypeError):
                continue  # output of a library
            if on_progress is not None:
                on_progress(step, self.percent)
        process.wait()

    def _end(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._process = None
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _command(self) -> list[str]:
        module = "infinite_memory.embedding.prepare"
        return [
            sys.executable, "-P", "-m", module, "--model", self.model, "--to", str(self.target),
            "--precision", self._precision, "--end-with-input",
        ]  # fmt: skip
