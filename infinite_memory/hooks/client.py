"""The hook's fallback for events that `run` could not hand to the daemon. Standard library only, no shell; exit code 0 whatever happens.

An event that ends something (Stop, SubagentStop, PreCompact, SessionEnd) is first written to the spool on disk;
then the daemon is notified, or started in the background if none is running. An event that begins something (SessionStart,
UserPromptSubmit) asks the daemon for context, waits a short time, and prints the answer or nothing. A daemon that hangs delays the
client by at most `DEADLINE_S`: a system timer ends the process.

Output is the envelope that the client documents (`clients`), in ASCII, so that no character can be split in transit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.daemon.ipc import PROTOCOL, connect
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.hooks.clients import CAPTURING, EVENTS, make_envelope, make_message
from infinite_memory.hooks.control import OFF, PAUSED, read_control
from infinite_memory.hooks.files import CLAUDE_CODE, CLIENTS, notice_of_failures, record_event, spool
from infinite_memory.hooks.run import ANSWER_S, DEADLINE_S, INPUT_BYTES, options_of
from infinite_memory.paths import HOME_VARIABLE, check_home, find_home

Json = dict[str, Any]

LATE = f"the daemon did not answer within {ANSWER_S:g} s"


def run(
    arguments: Sequence[str], data: bytes | None = None, *, is_late: bool = False, deadline_s: float = DEADLINE_S
) -> int:
    """Handle one event; always return 0.

    Args:
        arguments: The event and options.
        data: Standard input, if it was already read.
        is_late: A daemon accepted the event but did not answer in time: do not contact it again.
        deadline_s: Seconds after which this process ends, whatever it waits for.
    """
    _end_in_time(deadline_s)
    home, event, client = None, "unknown", CLAUDE_CODE
    try:
        options = options_of(arguments[1:])
        if "--home" in options:
            os.environ[HOME_VARIABLE] = options["--home"]
        if options.get("--client") in CLIENTS:
            client = options["--client"]
        named = find_home(os.environ).path
        check_home(named)  # nothing is written to a home owned by somebody else, not even the refusal
        home = named
        if read_control(home).state == OFF:
            return 0
        name = arguments[0] if arguments else ""
        event = name if name in EVENTS[client] else "unknown"
        message = make_message(client, name, _read_input() if data is None else data, os.environ)
        output = _handle(home, client, name, message, is_late=is_late)
        record_event(home, client, event)
        if output:
            os.write(1, json.dumps(output).encode("ascii") + b"\n")
    except Exception as exc:  # a hook never fails the session
        if home is not None:
            record_event(home, client, event, f"{type(exc).__name__}: {exc}"[:300])
    finally:
        _stop_timer()
    return 0


def _stop_timer() -> None:
    """Stop the timer before the interpreter exits: it restores default signal handlers, and SIGALRM would change the exit code."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _end_in_time(deadline_s: float) -> None:
    """End this process after *deadline_s*, whatever it waits for: by a system timer, on Windows by a thread."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, deadline_s)
        return
    import threading

    timer = threading.Timer(deadline_s, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _read_input() -> bytes:
    """Return standard input, truncated one byte above the limit so that the caller can see that it is too large.

    Raises:
        ValueError: standard input is a terminal.
    """
    if os.isatty(0):
        raise ValueError("an event is read from standard input, and this is a terminal")
    with os.fdopen(os.dup(0), "rb") as source:
        return source.read(INPUT_BYTES + 1)


def _handle(home: Path, client: str, name: str, message: Json, *, is_late: bool) -> Json | None:
    """Return the envelope to print, if any."""
    if message["event"] in CAPTURING:
        if "said" in message and read_control(home).state == PAUSED:
            return None  # text captured during a pause is not even written to the spool
        try:
            spool(home, message)
        except OSError:
            # For example a full disk: the daemon may still read the transcript now, and the next event reads it anyway.
            _send(home, message | {"what": "capture"}, is_late=is_late)
            raise
        answer = _send(home, {"what": "drain"}, is_late=is_late)
        if answer is None or answer.get("ok") is False:
            _start_daemon()
        return None
    answer = _send(home, message | {"what": "recall"}, is_late=is_late)
    if answer is None or answer.get("ok") is False:
        _start_daemon()
    elif answer.get("late"):
        raise TimeoutError(LATE)
    context = (answer or {}).get("context")
    notice = notice_of_failures(home) if message["event"] == "SessionStart" else ""
    return make_envelope(client, name, context if isinstance(context, str) else "", notice)


def _send(home: Path, message: Json, *, is_late: bool) -> Json | None:
    """Send a message to the daemon and return its answer, one with ``late`` if it timed out; None if no daemon accepted it."""
    if is_late:
        return {"late": True}
    try:
        link = connect(home, ANSWER_S)
    except InfiniteMemoryError:
        return {}  # a daemon of another version is running; its next client replaces it
    if link is None:
        return None
    greeting = {"protocol": PROTOCOL, "version": __version__, "pid": os.getpid(), "kind": "hook"} | message
    with link:
        try:
            link.sendall(json.dumps(greeting).encode("ascii") + b"\n")
            line = _read_line(link)
            answer = json.loads(line)
        except TimeoutError:
            return {"late": True}
        except (OSError, ValueError):
            return None  # it was shutting down: a socket accepts connections until its process is gone
    return answer if isinstance(answer, dict) else None


def _read_line(link: Any) -> bytes:
    """Read to the end of the first line."""
    data = b""
    while not data.endswith(b"\n") and (chunk := link.recv(65536)):
        data += chunk
    return data


def _start_daemon() -> None:
    """Start the daemon without waiting for it; it reads the spool once it runs."""
    import subprocess  # imported lazily: only needed to start a daemon

    from infinite_memory.platform_processes import start_detached

    start_detached(
        [sys.executable, "-P", "-m", "infinite_memory", "daemon", "start"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
