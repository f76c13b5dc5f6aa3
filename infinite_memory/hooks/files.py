"""Files shared by hooks and daemon, in ``hooks/`` of the home. Standard library only: the hook imports this.

``spool/`` holds the events whose transcripts are still to be read, one file each, written before the hook acknowledges anything.
``sessions/`` holds the offset in each transcript, ``recalled/`` the memories a session was shown, ``events/`` the last event of each
kind. ``control.json`` holds the pauses of capture. Each of these files is replaced atomically, so a reader sees all of it or none.
``stored/`` has the ids of everything ever stored for a project (`ledger`).
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from infinite_memory.platform_files import open_regular, replace_file

Json = dict[str, Any]

MAX_BYTES = 4 << 20  # maximum size of these files; a larger one is not read

CLIENTS = (CLAUDE_CODE, CODEX, CURSOR, GEMINI) = "claude-code", "codex", "cursor", "gemini"
"""The supported assistants; the one a memory was captured from is its source."""

DAY_S = 86_400.0
MALFORMED = ".malformed"  # suffix of an event that was set aside

_counter = 0


def hooks_folder(home: Path) -> Path:
    """Return the folder of these files; it may not exist."""
    return home / "hooks"


def spool_folder(home: Path) -> Path:
    """Return the folder of pending events."""
    return hooks_folder(home) / "spool"


def read_json(path: Path) -> Json | None:
    """Return the JSON object in a file; None if it is missing or unreadable."""
    try:
        with open_regular(path) as file:
            value = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: Path, value: Json, *, durable: bool = False) -> None:
    """Replace a file, readable by its owner only; with *durable* it is synced to disk when this returns.

    Raises:
        OSError: writing failed, for example on a full disk; the file is unchanged.
    """
    global _counter  # noqa: PLW0603
    _counter += 1
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{_counter}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(value).encode("ascii"))
            file.flush()
            if durable:
                os.fsync(file.fileno())
        replace_file(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if durable and os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def spool(home: Path, event: Json) -> None:
    """Add an event to the spool; it is synced to disk when this returns.

    Raises:
        OSError: the event could not be written.
    """
    write_json(spool_folder(home) / f"{time.time_ns():020d}-{os.getpid()}.json", event, durable=True)


def waiting(home: Path) -> list[Path]:
    """Return the files of pending events, oldest first."""
    try:
        return sorted(path for path in spool_folder(home).iterdir() if path.suffix == ".json")
    except OSError:
        return []


def set_aside(path: Path) -> None:
    """Rename a malformed event, so that it is not read again and `doctor` reports it. An unreadable one stays pending."""
    try:
        with open_regular(path) as file:
            file.read(1)
        path.replace(path.with_suffix(MALFORMED))
    except OSError:
        return


def events_set_aside(home: Path) -> list[str]:
    """Return the names of the events that were set aside."""
    try:
        return sorted(path.name for path in spool_folder(home).iterdir() if path.suffix == MALFORMED)
    except OSError:
        return []


def record_event(home: Path, client: str, event: str, failure: str | None = None) -> None:
    """Record when an event last arrived, and since when it has failed. Best effort: write errors are ignored."""
    path = hooks_folder(home) / "events" / f"{client}.{event}.json"
    now = time.time()
    before = read_json(path)
    before = before if before is not None and _is_event(before) else {}
    value: Json = {"client": client, "event": event, "at": now, "failure": failure}
    value["failing_since"] = None if failure is None else (before.get("failing_since") or now)
    value["last_failure"] = {"at": now, "failure": failure} if failure is not None else before.get("last_failure")
    try:
        write_json(path, value)
    except OSError:
        return


def last_events(home: Path) -> list[Json]:
    """Return the last event of each kind and client, sorted by name."""
    try:
        paths = sorted(path for path in (hooks_folder(home) / "events").iterdir() if path.suffix == ".json")
    except OSError:
        return []
    return [value for path in paths if (value := read_json(path)) is not None and _is_event(value)]


def notice_of_failures(home: Path) -> str:
    """Return a notice for the user if hooks have failed for more than a day; "" otherwise."""
    since = [float(event["failing_since"]) for event in last_events(home) if event.get("failing_since")]
    if not since or time.time() - min(since) <= DAY_S:
        return ""
    return "infinite-memory: hooks have failed for more than a day; see `infinite-memory doctor`"


def _is_event(value: Json) -> bool:
    """True if the content of a file in ``events/`` is valid, as `record_event` writes it."""
    last = value.get("last_failure")
    return (
        isinstance(value.get("at"), float)
        and all(isinstance(value.get(name), str) for name in ("client", "event"))
        and isinstance(value.get("failure"), str | None)
        and isinstance(value.get("failing_since"), float | None)
        and (value.get("failure") is None or value.get("failing_since") is not None)
        and (last is None or (isinstance(last, dict) and isinstance(last.get("at"), float) and "failure" in last))
    )
