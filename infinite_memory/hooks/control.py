"""Whether capture is paused or hooks are off, by the user's word. Standard library only: the hook asks this first.

A pause is kept as the stretch of time that it lasts, and not as a switch: transcripts are read after the fact, and what was said
during a pause stays out whenever it is read. Where the computer's clock was ahead when a pause began and was set right in it, nobody
knows when that was: then all stays out that was said before the end of the pause and is not stored yet. One that it ended in what is
still to come has ended all the same, by the user's word: it ends when that is noticed (`settle_control`).
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

MAX_PAUSES = 1000  # the oldest are joined to one above this: what they cover stays out

ON, PAUSED, OFF = "on", "paused", "off"


class Control(NamedTuple):
    """The state, and each pause as ``(from, to)`` in seconds since 1970; ``to`` is None while it lasts."""

    state: str = ON
    pauses: tuple[tuple[float, float | None], ...] = ()

    def is_paused_at(self, instant: float) -> bool:
        """True if what was said at *instant* is not to be stored; everything while a pause lasts that began in what is still to come."""
        now = time.time()
        return any(
            (start <= instant or (end is None and start > now)) and (end is None or instant < end)
            for start, end in self.pauses
        )


def read_control(home: Path) -> Control:
    """Return the state; a file that cannot be understood counts as a pause without end, for that loses no privacy."""
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
    """Turn capture on, pause it, or turn hooks off; begins or ends a pause as of now.

    Raises:
        OSError: it could not be written.
    """
    with _locked(home):
        return _write(home, state)


def settle_control(home: Path) -> Control:
    """Return the state, as `read_control` does, once no pause ends in what is still to come."""
    control = read_control(home)
    if not _ends_later(control):
        return control
    try:
        with _locked(home):
            control = read_control(home)
            return _write(home, control.state) if _ends_later(control) else control
    except OSError:  # it is tried again
        return control


def _ends_later(control: Control) -> bool:
    now = time.time()
    return any(end is not None and end > now for _, end in control.pauses)


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Keep other processes from writing the state: a pause that one begins is not overwritten by what another read before."""
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
    """Return a pause of a clock that was ahead as it is known by the right one."""
    start, end = pause
    return pause if end is None or end <= now else (start if start <= now else 0.0, now)
