"""`infinite-memory hook EVENT`: what an assistant's hook runs. Standard library only, no shell; exit code 0 whatever happens.

An event that ends something (Stop, SubagentStop, PreCompact, SessionEnd) goes to the spool, on the disk, before anything else;
then the daemon is told, and started in the background where there is none. An event that begins something (SessionStart,
UserPromptSubmit) asks the daemon what is known, waits a short time, and prints what came or nothing at all. A daemon that hangs
costs no more than `DEADLINE_S`: a timer of the system ends the process.

Output is the envelope that the client documents (`clients`), in ASCII, so that no character can be cut in two on the way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.daemon.ipc import PROTOCOL, connect
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.hooks.clients import CAPTURING, EVENTS, make_envelope, read_event
from infinite_memory.hooks.control import OFF, PAUSED, read_control
from infinite_memory.hooks.files import CARRIED, CLAUDE_CODE, CLIENTS, last_events, record_event, spool
from infinite_memory.paths import HOME_VARIABLE, check_home, find_home

Json = dict[str, Any]

DEADLINE_S = 1.2  # Claude Code gives SessionEnd 1.5 s in all
ANSWER_S = 0.8  # how long an answer of the daemon is waited for
INPUT_BYTES = 16 << 20
PROMPT_CHARS = 2000  # of a prompt are enough to search by
DAY_S = 86_400.0


def run(arguments: Sequence[str]) -> int:
    """Handle one event; always 0."""
    _end_in_time()
    home, event, client = None, "unknown", CLAUDE_CODE
    try:
        options = _options(arguments[1:])
        if "--home" in options:
            os.environ[HOME_VARIABLE] = options["--home"]
        if options.get("--client") in CLIENTS:
            client = options["--client"]
        named = find_home(os.environ).path
        check_home(named)  # nothing is written into a home that somebody else made, not even that it was refused
        home = named
        if read_control(home).state == OFF:
            return 0
        event = arguments[0] if arguments and arguments[0] in EVENTS[client] else "unknown"
        if event == "unknown":
            raise ValueError("the event has no name that is known")
        output = _handle(home, client, event, _read_input())
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
    """Let the interpreter end in peace: it gives signals their own effect back first, and the timer's would be another exit code."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _end_in_time() -> None:
    """End this process after `DEADLINE_S`, whatever it waits for: by a timer of the system, on Windows by a thread."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, DEADLINE_S)
        return
    import threading

    timer = threading.Timer(DEADLINE_S, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Return the values of ``--home`` and ``--client``, written as one argument with ``=`` or as two."""
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in ("--home", "--client") and (given := value if equals else next(rest, None)) is not None:
            options[name] = given
    return options


def _read_input() -> Json:
    """Return the event's fields.

    Raises:
        ValueError: they are no JSON object.
    """
    if os.isatty(0):
        raise ValueError("an event is read from standard input, and this is a terminal")
    with os.fdopen(os.dup(0), "rb") as source:
        data = source.read(INPUT_BYTES + 1)
    if len(data) > INPUT_BYTES:
        raise ValueError("the event is too large")
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("the event is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("the event is no object")
    return value


def _handle(home: Path, client: str, name: str, fields: Json) -> Json | None:
    """Return the envelope to print; None for none."""
    event = EVENTS[client][name]
    message: Json = {"event": event, "client": client, "at": time.time(), "environ": _settings()}
    message |= read_event(client, name, fields)
    if event in CAPTURING:
        if "said" in message and read_control(home).state == PAUSED:
            return None  # what is said during a pause is not even written to the spool
        try:
            spool(home, message)
        except OSError:
            # A full disk, say: the daemon may still read the transcript now, and the next event reads it anyway.
            _send(home, message | {"what": "capture"})
            raise
        answer = _send(home, {"what": "drain"})
        if answer is None or answer.get("ok") is False:
            _start_daemon()
        return None
    if "prompt" in message:
        message["prompt"] = message["prompt"][:PROMPT_CHARS]
    answer = _send(home, message | {"what": "recall"})
    if answer is None or answer.get("ok") is False:
        _start_daemon()
    elif answer.get("late"):
        raise TimeoutError(f"the daemon did not answer within {ANSWER_S:g} s")
    context = (answer or {}).get("context")
    notice = _notice(home) if event == "SessionStart" else ""
    return make_envelope(client, name, context if isinstance(context, str) else "", notice)


def _notice(home: Path) -> str:
    """Return one line for the user when hooks fail for a day; "" otherwise."""
    since = [float(one["failing_since"]) for one in last_events(home) if one.get("failing_since")]
    if not since or time.time() - min(since) <= DAY_S:
        return ""
    return "infinite-memory: hooks have failed for more than a day; see `infinite-memory doctor`"


def _settings() -> dict[str, str]:
    """Return the variables of this client that say what is captured and recalled."""
    return {name: value for name, value in os.environ.items() if name.startswith(CARRIED)}


def _send(home: Path, message: Json) -> Json | None:
    """Hand a message to the daemon and return its answer, one with ``late`` where none came in time; None where no daemon took it."""
    try:
        link = connect(home, ANSWER_S)
    except InfiniteMemoryError:
        return {}  # one of another version runs; its next client replaces it
    if link is None:
        return None
    greeting = {"protocol": PROTOCOL, "version": __version__, "pid": os.getpid(), "kind": "hook"} | message
    with link:
        try:
            link.sendall(json.dumps(greeting).encode("ascii") + b"\n")
            said = _read_line(link)
            answer = json.loads(said)
        except TimeoutError:
            return {"late": True}
        except (OSError, ValueError):
            return None  # it was ending: a socket takes connections until its process is gone
    return answer if isinstance(answer, dict) else None


def _read_line(link: Any) -> bytes:
    """Read to the end of the first line."""
    data = b""
    while not data.endswith(b"\n") and (chunk := link.recv(65536)):
        data += chunk
    return data


def _start_daemon() -> None:
    """Start the daemon and wait for nothing; it reads the spool when it is there."""
    import subprocess  # only who starts a daemon needs it

    from infinite_memory.platform_processes import start_detached

    start_detached(
        [sys.executable, "-P", "-m", "infinite_memory", "daemon", "start"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
