"""State of each assistant session: the offset in its transcript, and the memories it was shown.

Both are files in the home, one per session, replaced atomically. The offset is written after the turns before it are stored, so a
crash leads to reading again and never to a loss; reading again stores nothing twice (`capture`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from infinite_memory.errors import without_surrogates
from infinite_memory.hooks.files import CLAUDE_CODE, Json, hooks_folder, read_json, write_json
from infinite_memory.hooks.ledger import Ledger

HEAD_BYTES = 512
MAX_RECALLED = 2000  # ids that a session was shown
UNUSED_S = 90 * 86_400.0  # Claude Code keeps transcripts for 30 days


@dataclass(slots=True)
class Reading:
    """The reading position in a transcript. ``head`` is a hash of its beginning: a different one means another file.

    ``withheld_until`` is the last Unix timestamp at which capture was off: earlier turns stay out, or are already stored.
    ``digested`` is the offset up to which the session has a digest.
    ``environ`` holds the client's variables as of its last event: they apply to its turns, whichever client triggers the reading.
    ``context`` is the parser state for the lines that follow (`transcript_forms`).
    ``transcript`` is "" for a client whose events contain the text; ``offset`` counts those events then.
    """

    session_id: str
    transcript: str
    cwd: str
    offset: int = 0
    head: str = ""
    is_skipping: bool = False
    stored: int = 0
    unread: int = 0
    withheld_until: float = 0.0
    digested: int = 0
    client: str = CLAUDE_CODE
    environ: dict[str, str] = field(default_factory=dict)
    context: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Recalled:
    """What a session was shown: ids of memories, and whether it got the text for its start."""

    session_id: str
    memory_ids: list[str] = field(default_factory=list)
    is_started: bool = False


class Sessions:
    """The files of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._readings, self._recalled = hooks_folder(home) / "sessions", hooks_folder(home) / "recalled"

    def ledger(self, root: Path) -> Ledger:
        """Return the ledger of a project."""
        return Ledger(self._home, root)

    def reading(self, session_id: str, transcript: str, cwd: str) -> Reading:
        """Return the reading position in a transcript, a new one at its beginning."""
        return self.find_reading(session_id, transcript) or Reading(session_id, transcript, cwd)

    def find_reading(self, session_id: str, transcript: str) -> Reading | None:
        """Return the reading position in a transcript; None if it was never read. Malformed fields count as missing.

        If it is unknown until when capture was off, everything said before the file was written stays out.
        """
        path = self._readings / f"{_name(session_id, transcript)}.json"
        value = read_json(path)
        try:
            written_at = path.stat().st_mtime
        except OSError:
            return None
        faults = _faults(Reading, value or {})
        good = {
            name: field_value
            for name, field_value in (value or {}).items()
            if name in _names(Reading) and name not in faults
        }
        if value is None or faults & {"withheld_until", "environ"}:
            good["withheld_until"] = written_at
        # Written by a clock that was ahead: limited to now, or the session would not be captured any more.
        good["withheld_until"] = min(float(good.get("withheld_until", 0.0)), time.time())
        return Reading(**({"cwd": ""} | good | {"session_id": session_id, "transcript": transcript}))

    def begin(self, fresh: Reading) -> Reading:
        """Return a transcript's first reading position.

        An earlier transcript of the same session at another path counts as the same one (its folder may have moved): what stayed out
        of it stays out here, and its unread turns belong to its variables.
        """
        for earlier in self.of_session(fresh.session_id) if fresh.transcript else ():
            withheld_until = max(fresh.withheld_until, earlier.withheld_until)
            fresh = replace(fresh, withheld_until=withheld_until, environ=earlier.environ)
        return fresh

    def save_reading(self, reading: Reading) -> None:
        """Save the reading position in a transcript."""
        name = _name(reading.session_id, reading.transcript)
        write_json(self._readings / f"{name}.json", asdict(reading), durable=True)

    def unfinished(self) -> list[Reading]:
        """Return the readings whose transcripts have grown or shrunk since."""
        return [reading for reading in self._all() if (size := size_of(reading.transcript)) and size != reading.offset]

    def undigested(self) -> list[Reading]:
        """Return the readings that are ahead of their session's digest."""
        return [reading for reading in self._all() if reading.digested != reading.offset]

    def growing_file(self, reading: Reading) -> Path:
        """Return the file that is written while a session is active."""
        if reading.transcript:
            return Path(reading.transcript)
        return self._readings / f"{_name(reading.session_id, reading.transcript)}.json"

    def of_session(self, session_id: str) -> list[Reading]:
        """Return the readings of a session's transcripts, usually one."""
        return [
            reading
            for reading in self._all()
            if without_surrogates(reading.session_id) == without_surrogates(session_id)
        ]

    def _all(self) -> list[Reading]:
        try:
            paths = sorted(self._readings.glob("*.json"))
        except OSError:
            return []
        values = [value for path in paths if not _faults(Reading, value := read_json(path) or {}) & _IDENTITY]
        readings = [self.find_reading(value["session_id"], value["transcript"]) for value in values]
        return [reading for reading in readings if reading is not None]

    def has_read(self, session_id: str) -> bool:
        """True if a transcript of that session was read at least in part."""
        values = (read_json(path) or {} for path in self._readings.glob("*.json"))
        return any(value.get("session_id") == session_id and bool(value.get("offset")) for value in values)

    def malformed(self) -> list[str]:
        """Return the malformed files, as folder and name."""
        return [
            f"{folder.name}/{path.name}"
            for folder, kind in ((self._readings, Reading), (self._recalled, Recalled))
            for path in sorted(folder.glob("*.json") if folder.is_dir() else ())
            if (value := read_json(path)) is None or _faults(kind, value)
        ]

    def remove_old(self) -> None:
        """Remove files that were not modified for `UNUSED_S`.

        The reading of an existing transcript is kept: read again from its beginning, turns said while capture was off would be stored.
        """
        for folder in (self._readings, self._recalled):
            for path in folder.glob("*.json") if folder.is_dir() else ():
                with contextlib.suppress(OSError):
                    is_old = path.stat().st_mtime < time.time() - UNUSED_S
                    if is_old and (folder == self._recalled or _is_over(read_json(path))):
                        path.unlink()

    def recalled(self, session_id: str) -> Recalled:
        """Return what a session was shown."""
        value = read_json(self._recalled / f"{_name(session_id)}.json") or {}
        if _faults(Recalled, value):
            return Recalled(session_id)
        return Recalled(session_id, value.get("memory_ids", []), value.get("is_started", False))

    def save_recalled(self, recalled: Recalled) -> None:
        """Save what a session was shown."""
        recalled.memory_ids = recalled.memory_ids[-MAX_RECALLED:]
        write_json(self._recalled / f"{_name(recalled.session_id)}.json", asdict(recalled))


_IDENTITY = frozenset({"session_id", "transcript", "cwd"})
MAX_NUMBER = 1 << 53
_IS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and 0 <= value < MAX_NUMBER,
    "float": lambda value: type(value) in (int, float) and 0 <= value < MAX_NUMBER,
    "list[str]": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "dict[str, str]": lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
}
"""Type checks by the name of a field's annotation."""


def _is_over(value: Json | None) -> bool:
    """True if the transcript of a stored reading is gone, or never existed."""
    if value is None or not isinstance(transcript := value.get("transcript"), str):
        return False  # a malformed file still withholds everything said before it was written
    return not transcript or not os.path.lexists(transcript)


def _names(kind: type[Any]) -> set[str]:
    return {field.name for field in fields(kind)}


def _faults(kind: type[Any], value: Json) -> set[str]:
    """Return the fields of *kind* that are missing or of the wrong type in a file; those with a default may be missing."""
    has_default = {
        field.name for field in fields(kind) if field.default is not MISSING or field.default_factory is not MISSING
    }
    return {
        field.name
        for field in fields(kind)
        if not (field.name in value and _IS[str(field.type)](value[field.name]))
        and not (field.name not in value and field.name in has_default)
    }


def _name(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def size_of(transcript: str) -> int | None:
    """Return the size of a readable transcript, None if it is not one.

    Only a regular ``*.jsonl`` file owned by this user is accepted, so an event cannot make other files be read.
    """
    path = Path(transcript)
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    is_own = os.name != "posix" or status.st_uid == os.geteuid()
    is_transcript = path.is_absolute() and path.suffix == ".jsonl" and stat.S_ISREG(status.st_mode)
    return status.st_size if is_own and is_transcript else None


def head_of(path: Path) -> str:
    """Return a hash of the beginning of a transcript, its first line at most; "" if that line is incomplete.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        line = file.readline(HEAD_BYTES)
    return hashlib.sha256(line).hexdigest() if line.endswith(b"\n") or len(line) == HEAD_BYTES else ""
