"""Finds the home, its settings and the daemon from arguments and environment. The part used by `serve` is standard library only."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from infinite_memory.contracts.registry import NATIVE, get_spec, list_options
from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.paths import Home, find_home

if TYPE_CHECKING:
    from infinite_memory.config import Config
    from infinite_memory.contracts.spec import Option

Json = dict[str, Any]


def collect_flags(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings given as arguments: ``{"section.name": text}``.

    Raises:
        ConfigError: an argument is not a setting.
    """
    flags = {}
    for entry in options.set:
        name, sign, value = entry.partition("=")
        if not sign:
            raise ConfigError("--set: SECTION.NAME=VALUE was expected, and there is no =")
        flags[name.strip()] = value.strip()
    if getattr(options, "scope", None):
        flags["scopes.default"] = options.scope
    if getattr(options, "tools", None):
        flags["mcp.tools"] = options.tools
    for option, value in _options_of_contract(options):
        if option.setting is not None and value:
            flags[option.setting] = value
    return flags


def home_and_config(options: argparse.Namespace) -> tuple[Home, Config]:
    """Return the home and its settings.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    from infinite_memory.config import load_config

    home = find_home(os.environ)
    _check_file(options)
    return home, load_config(options.config or home.config_file, os.environ, collect_flags(options))


def build_greeting(options: argparse.Namespace) -> Json:
    """Return a session's handshake for a command's arguments and environment.

    Raises:
        ConfigError: the named settings file does not exist, or a flag belongs to another contract.
    """
    from infinite_memory.daemon.handshake import session_greeting

    _check_file(options)
    name: str = getattr(options, "contract", NATIVE)
    contract, carried = (None, ()) if name == NATIVE else (name, get_spec(name).carried)
    greeting = session_greeting(os.environ, contract=contract, flags=collect_flags(options), carried=carried)
    if chosen := contract_options(options):
        greeting["options"] = chosen
    if options.config is not None:
        greeting["config_file"] = str(options.config.absolute())
    return greeting


def contract_options(options: argparse.Namespace) -> dict[str, str]:
    """Return the flags that belong to a contract.

    Raises:
        ConfigError: a flag belongs to another contract.
    """
    provided = {option.name: value for option, value in _options_of_contract(options) if option.setting is None}
    http = getattr(options, "http", None)
    return provided if http is None else provided | {"http": http}


def _options_of_contract(options: argparse.Namespace) -> Iterator[tuple[Option, str]]:
    """Yield the contract flags that were given.

    Raises:
        ConfigError: a flag belongs to another contract.
    """
    for spec, option in list_options():
        value: str | None = getattr(options, option.name, None)
        if value is None or not hasattr(options, "contract"):
            continue  # other commands have flags with these names too
        if options.contract != spec.name:
            raise ConfigError(f"--{option.name} goes with --contract {spec.name}")
        yield option, value


def report_notes(answer: Json) -> None:
    """Report on standard error which of this client's settings differ from the running daemon's."""
    for note in answer.get("notes", ()):
        print(f"infinite-memory: {note}", file=sys.stderr)


def ask(
    options: argparse.Namespace,
    request: Json,
    progress: Callable[[int, int], None] | None = None,
    *,
    any_path: bool = False,
    expected_revision: int | None = None,
    only_archived: bool = False,
) -> Json:
    """Send one request of the native contract to the home's daemon, which is started if necessary, and return the reply.

    Args:
        progress: Called with the number done and the total (0: unknown).
        any_path: Whether the request may name any path: only for paths typed by the user, never for requests from elsewhere.
        expected_revision: The change is refused if the memory has another revision.
        only_archived: Restoring a scope is refused if it is not archived.

    Raises:
        DaemonError: the daemon could not be reached, or stopped before it answered.
        ConfigError: a setting is unknown or invalid.
    """
    from infinite_memory.daemon.handshake import greet

    extra: Json = ({"progress": True} if progress is not None else {}) | ({"any_path": True} if any_path else {})
    extra |= {"only_archived": True} if only_archived else {}
    extra |= {} if expected_revision is None else {"expected_revision": expected_revision}
    link, answer = greet(find_home(os.environ).path, build_greeting(options) | extra)
    report_notes(answer)
    with link, link.makefile("rwb") as stream:
        stream.write(json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        stream.flush()
        if (reply := read_reply(stream, progress)) is not None:
            return reply
    raise DaemonError("the daemon stopped before it answered; the request may or may not have been carried out")


def read_reply(stream: Iterable[bytes], progress: Callable[[int, int], None] | None) -> Json | None:
    """Return the reply that follows the progress lines, which are passed to *progress*; None if the stream ends without one."""
    for line in stream:
        if not line.startswith(b"\x1e"):
            reply: Json = json.loads(line)
            return reply
        counts = json.loads(line[1:]).get("progress")
        if progress is not None and counts is not None:
            progress(counts["done"], counts["total"])
    return None


def ask_each(options: argparse.Namespace, requests: Iterable[Json]) -> Iterator[Json]:
    """Send requests of the native contract one after another over one connection, and yield the replies.

    Raises:
        DaemonError: the daemon could not be reached, or stopped before it answered.
        ConfigError: a setting is unknown or invalid.
    """
    from infinite_memory.daemon.handshake import greet

    link, answer = greet(find_home(os.environ).path, build_greeting(options))
    report_notes(answer)
    with link, link.makefile("rwb") as stream:
        for request in requests:
            stream.write(json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            stream.flush()
            while (line := stream.readline()).startswith(b"\x1e"):
                pass  # session state, for long-lived clients
            if not line:
                raise DaemonError(
                    "the daemon stopped before it answered; the request may or may not have been carried out"
                )
            yield json.loads(line)


def ask_route(options: argparse.Namespace, route: str, fields: Json) -> Json:
    """Send a request to an HTTP API route over the daemon's own socket; return its body with status OK or ERROR, as `ask` does.

    Raises:
        DaemonError: the daemon could not be reached, or stopped before it answered.
        ConfigError: a setting is unknown or invalid.
    """
    from infinite_memory.daemon.handshake import greet, session_greeting

    _check_file(options)
    greeting = session_greeting(os.environ, contract="routes", flags=collect_flags(options))
    if options.config is not None:
        greeting["config_file"] = str(options.config.absolute())
    link, answer = greet(find_home(os.environ).path, greeting)
    report_notes(answer)
    with link, link.makefile("rwb") as stream:
        line = json.dumps({"route": route, "fields": fields}, ensure_ascii=False)
        stream.write(line.encode("utf-8", "surrogatepass") + b"\n")
        stream.flush()
        if not (line_back := stream.readline()):
            raise DaemonError("the daemon stopped before it answered; the request may or may not have been carried out")
    body: Json = json.loads(line_back)["body"]
    if "error" in body:
        return {"status": "ERROR", "error": body["error"]["message"], "error_code": body["error"]["code"]}
    return {"status": "OK"} | body


def ask_daemon(kind: str) -> Json | None:
    """Ask a running daemon for its status, or to stop; None if none is running.

    Raises:
        DaemonError: a daemon is running but does not answer.
    """
    from infinite_memory.daemon import ipc
    from infinite_memory.daemon.handshake import greet

    home = find_home(os.environ).path
    try:
        link, answer = greet(home, {"kind": kind}, start=False)
    except DaemonError:
        if ipc.is_held(ipc.lock_path(home)):
            raise
        return None
    link.close()
    return answer


def report_not_running(options: argparse.Namespace) -> int:
    """Report that no daemon is running, as JSON if *options* ask for it, and return the exit code."""
    if options.json:
        print(json.dumps({"running": False}))
    else:
        print("infinite-memory: no daemon runs; the next request starts one", file=sys.stderr)
    return 1


def _check_file(options: argparse.Namespace) -> None:
    if options.config is not None and not options.config.is_file():
        raise ConfigError(f"--config {options.config}: there is no such file")


def report(reply: Json) -> int:
    """Print a reply or its error, and return the exit code."""
    if reply.get("status") == "OK":
        print(json.dumps(reply, ensure_ascii=False))
        return 0
    print(f"infinite-memory: {reply.get('error')}", file=sys.stderr)
    return 1
