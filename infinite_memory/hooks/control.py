"""Whether the user has paused capture or turned hooks off. Standard library only: the hook checks this first.

A pause is stored as a time range and not as a switch: transcripts are read after the fact, and turns of a pause stay out whenever
they are read. If the clock was ahead when a pause began and was corrected during it, the real start is unknown: then everything
before the end of the pause that is not stored yet stays out. A pause whose recorded end is in the future has still been ended by the
user: it ends when that is noticed (`settle_control`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from infinite_memory.hooks.files import hooks_folder, read_json, write_json
from infinite_memory.platform_files import lock_file

MAX_PAUSES = 1000  # above this the oldest are merged into one range, which stays out as a whole

ON, PAUSED, OFF = "on", "paused", "off"


class Control(NamedTuple):
    """The state, and each pause as ``(from, to)`` as Unix timestamps; ``to`` is None while it lasts."""

    state: str = ON
    pauses: tuple[tuple[float, float | None], ...] = ()

    def is_paused_at(self, instant: float) -> bool:
        """True if a turn at *instant* must not be stored; always true during a pause whose recorded start is in the future."""
        now = time.time()
        return any(
            (start <= instant or (end is None and start > now)) and (end is None or instant < end)
            for start, end in self.pauses
        )


def read_control(home: Path) -> Control:
    """Return the state; an unreadable file counts as an endless pause, which is the private choice."""
    path = hooks_folder(home) / "control.json"
    value = read_json(path)
    if value is None:
        return Control(PAUSED, ((0.0, None),)) if path.exists() else Control()
    try:
        pauses = tuple((float(start), None if end is None else float(end)) for start, end in value["pauses"])
        return Control(str(value["state"]), pauses)
    except (KeyError, TypeError, ValueError):
        return Control(PAUSED, ((0.0, None),))


def set_state(home: Path, state: str) -> Control:
    """Turn capture on, pause it, or turn hooks off; starts or ends a pause as of now.

    Raises:
        OSError: the state could not be written.
    """
    with _locked(home):
        return _write(home, state)


def settle_control(home: Path) -> Control:
    """Return the state, as `read_control` does, after ending pauses whose recorded end is in the future."""
    control = read_control(home)
    if not _ends_later(control):
        return control
    try:
        with _locked(home):
            control = read_control(home)
            return _write(home, control.state) if _ends_later(control) else control
    except OSError:  # retried on the next read
        return control


def _ends_later(control: Control) -> bool:
    now = time.time()
    return any(end is not None and end > now for _, end in control.pauses)


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Lock the state against other processes, so that a stale write cannot overwrite a new pause."""
    file = hooks_folder(home) / "control.lock"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        lock_file(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _write(home: Path, state: str) -> Control:
    now = time.time()
    pauses = [_not_later(pause, now) for pause in read_control(home).pauses]
    is_open = bool(pauses) and pauses[-1][1] is None
    if state == ON and is_open:
        start = pauses[-1][0]
        pauses[-1] = (start if start <= now else 0.0, now)
    elif state != ON and not is_open:
        pauses.append((now, None))
    if len(pauses) > MAX_PAUSES:
        joined = len(pauses) - MAX_PAUSES + 1
        pauses = [(pauses[0][0], pauses[joined - 1][1]), *pauses[joined:]]
    control = Control(state, tuple(pauses))
    write_json(hooks_folder(home) / "control.json", {"state": state, "pauses": pauses}, durable=True)
    return control


def _not_later(pause: tuple[float, float | None], now: float) -> tuple[float, float | None]:
    """Return a pause recorded by a clock that was ahead, corrected by the current one."""
    start, end = pause
    return pause if end is None or end <= now else (start if start <= now else 0.0, now)
