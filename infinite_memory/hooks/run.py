"""Entry point of an assistant's hook: passes the raw event to the daemon, and prints the daemon's answer.

Most of a hook's run time is imports: this takes a few milliseconds where the modules of `client` take forty. So it imports only modules
that the interpreter has already loaded, and for sockets the C part (`_socket`: the module around it loads six others). Everything unusual
is left to `client`, together with the standard input already read: no daemon, another user's files, a home whose path is too long for a
socket, TCP, Windows, a client that sends the text in the event itself.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from infinite_memory import __version__

TYPE_CHECKING = False  # importing `typing` takes as long as everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence

PROTOCOL = 1  # `daemon.ipc`
HOME_VARIABLE = "INFINITE_MEMORY_HOME"  # `paths`
CARRIED = ("INFINITE_MEMORY_CAPTURE__", "INFINITE_MEMORY_HOOKS__")
"""Prefixes of the variables carried by a client's events: they apply to that client only, not to the daemon it may start."""
TOLD_IN_FULL = ("claude-code", "codex", "gemini")
"""Clients whose events may be sent twice: turns come from their transcripts."""
ANSWER_S = 0.8  # timeout for the daemon's answer
DEADLINE_S = 1.2  # Claude Code gives SessionEnd 1.5 s in all
INPUT_BYTES = 16 << 20
SHORT_BYTES = 128 << 10
"""Maximum size of an event that the daemon parses; a larger one is parsed by the hook's own process."""
_DONE = b'{"ok": true}\n'


class Unusual(Exception):
    """The event has to be handled by `client`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Handle one event of `hook EVENT [--client NAME] [--home FOLDER]`; always return 0.

    Without *arguments* those of this process are used, and the process exits here.
    """
    begun = time.monotonic()
    words = list(sys.argv[1:] if arguments is None else arguments)
    words = words[1:] if words[:1] == ["hook"] else words
    data: bytes | None = None
    is_late = False
    try:
        path, greeting = _find_socket(words), _greet(words)
        data = _read_input(begun)
        _print(_ask(path, greeting, data))
        if arguments is None:
            os._exit(0)  # interpreter shutdown takes 2 ms, and nothing is left to do
        return 0
    except TimeoutError:
        is_late = data is not None
    except Exception:
        pass  # `client` hits the same error and records it
    if data is None and time.monotonic() - begun >= DEADLINE_S:
        return 0  # the event never arrived
    from infinite_memory.hooks.client import run

    return run(words, data, is_late=is_late, deadline_s=max(begun + DEADLINE_S - time.monotonic(), 0.1))


def options_of(words: Sequence[str]) -> dict[str, str]:
    """Return the values of ``--home`` and ``--client``, given as one argument with ``=`` or as two."""
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in ("--home", "--client") and (argument := value if equals else next(rest, None)) is not None:
            options[name] = argument
    return options


def find_home(words: Sequence[str]) -> str:
    """Return the home as `paths.find_home` does.

    Raises:
        Unusual: the environment alone does not tell.
    """
    named = options_of(words[1:]).get("--home", os.environ.get(HOME_VARIABLE))
    user = os.environ.get("HOME", "")
    if not named and sys.platform == "linux":
        folder = os.environ.get("XDG_DATA_HOME") or (f"{user}/.local/share" if user else "")
        named = f"{folder.rstrip('/')}/infinite-memory" if folder else ""
    if not named or not named.startswith("/"):
        raise Unusual
    return named


def _find_socket(words: Sequence[str]) -> str:
    """Return the path of the daemon's socket, checked to be created by this user."""
    home = find_home(words)
    path = f"{home}/daemon.sock"
    folder, status = os.stat(home), os.lstat(path)  # noqa: PTH116
    if folder.st_uid != os.geteuid() or status.st_uid != os.geteuid() or not stat.S_ISSOCK(status.st_mode):
        raise Unusual
    return path


def _greet(words: Sequence[str]) -> dict[str, object]:
    client = options_of(words[1:]).get("--client", TOLD_IN_FULL[0])
    event = words[0] if words else ""
    if client not in TOLD_IN_FULL or not (event.isascii() and event.isalpha()):
        raise Unusual
    return {"client": client, "name": event}


def _read_input(begun: float) -> bytes:
    """Return the event from standard input."""
    import select

    if os.isatty(0):
        raise Unusual
    data = b""
    while True:
        ready, _, _ = select.select([0], [], [], max(begun + DEADLINE_S - time.monotonic(), 0))
        if not ready:
            raise Unusual
        chunk = os.read(0, 1 << 20)
        if not chunk:
            return data
        data += chunk
        if len(data) > INPUT_BYTES:
            return data  # too large: refused later


def _print(output: bytes) -> None:
    try:
        while output:
            output = output[os.write(1, output) :]
    except OSError:
        pass  # the client is gone


def _ask(path: str, event: dict[str, object], data: bytes) -> bytes:
    """Return the daemon's output for the client.

    Raises:
        TimeoutError: the daemon does not answer in time.
        Unusual: it belongs to another user, has another version, or is shutting down.
        OSError: nothing is listening.
    """
    from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

    if len(data) > SHORT_BYTES:
        raise Unusual
    names = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(CARRIED)]
    environ = os.fsencode("\0".join(names))
    greeting = (
        f'{{"protocol": {PROTOCOL}, "version": "{__version__}", "pid": {os.getpid()}, "kind": "hook", "name": "{event["name"]}", '
        f'"client": "{event["client"]}", "sizes": [{len(environ)}, {len(data)}]}}\n'
    )
    link = socket(AF_UNIX, SOCK_STREAM)
    try:
        link.settimeout(ANSWER_S)
        link.connect(path)
        user = link.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[4:8]
        if int.from_bytes(user, sys.byteorder) != os.geteuid():
            raise Unusual
        link.sendall(greeting.encode("ascii") + environ + data)
        answer = b""
        while chunk := link.recv(1 << 16):
            answer += chunk
    finally:
        link.close()
    if not answer.startswith(_DONE):
        raise Unusual
    return answer[len(_DONE) :]
