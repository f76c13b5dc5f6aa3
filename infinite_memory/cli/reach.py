"""From arguments and environment to the home, its settings, and the daemon. What `serve` needs of it is standard library only."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.home import Home, find_home

if TYPE_CHECKING:
    from infinite_memory.config import Config

Json = dict[str, Any]
NATIVE = "native"


def flags_of(options: argparse.Namespace) -> dict[str, str]:
    """Collect the settings that were given as arguments: ``{"section.name": text}``.

    Raises:
        ConfigError: one of them is no setting at all.
    """
    flags = {}
    for entry in options.set:
        name, sign, value = entry.partition("=")
        if not sign:
            raise ConfigError(f"--set {entry}: SECTION.NAME=VALUE was expected")
        flags[name.strip()] = value.strip()
    if getattr(options, "scope", None):
        flags["scopes.default"] = options.scope
    if getattr(options, "tools", None):
        flags["mcp.tools"] = options.tools
    for name in ("organization", "user"):
        if getattr(options, name, None):
            if options.contract != "laravel":
                raise ConfigError(f"--{name} goes with --contract laravel")
            flags[f"laravel.{name}"] = getattr(options, name)
    return flags


def home_and_config(options: argparse.Namespace) -> tuple[Home, Config]:
    """Find the home and read every setting.

    Raises:
        ConfigError: a setting is unknown or wrong.
    """
    from infinite_memory.config import load_config

    home = find_home(os.environ)
    _check_file(options)
    return home, load_config(options.config or home.config_file, os.environ, flags_of(options))


def greeting_of(options: argparse.Namespace) -> Json:
    """Write a session's greeting from a command's arguments and its environment.

    Raises:
        ConfigError: the settings file that is named is not there, or a flag goes with another contract.
    """
    from infinite_memory.greeting import session_greeting

    _check_file(options)
    contract: str | None = getattr(options, "contract", NATIVE)
    carried: tuple[str, ...] = ()
    if contract == NATIVE:
        contract = None
    elif contract is not None:
        from infinite_memory.cli.foreign_settings import CARRIED

        carried = CARRIED.get(contract, ())
    greeting = session_greeting(os.environ, contract=contract, flags=flags_of(options), carried=carried)
    if chosen := contract_options(options):
        greeting["options"] = chosen
    if options.config is not None:
        greeting["config_file"] = str(options.config.absolute())
    return greeting


def contract_options(options: argparse.Namespace) -> dict[str, str]:
    """Collect the flags that belong to a contract.

    Raises:
        ConfigError: one of them goes with another contract.
    """
    palace = getattr(options, "palace", None)
    if palace is not None and options.contract != "palace":
        raise ConfigError("--palace goes with --contract palace")
    given = {"palace": palace, "http": getattr(options, "http", None)}
    return {name: value for name, value in given.items() if value is not None}


def tell_notes(answer: Json) -> None:
    """Say on standard error which of this client's settings the daemon that runs has otherwise."""
    for note in answer.get("notes", ()):
        print(f"infinite-memory: {note}", file=sys.stderr)


def ask(options: argparse.Namespace, request: Json, progress: Callable[[int, int], None] | None = None) -> Json:
    """Send one request of the native contract to the home's daemon, started if there is none; gives the reply.

    Args:
        progress: Is told meanwhile how much is done, of how much (0: unknown).

    Raises:
        DaemonError: it could not be reached, or went before it answered.
        ConfigError: a setting is unknown or wrong.
    """
    from infinite_memory.greeting import greet

    wanted = {"progress": True} if progress is not None else {}
    link, answer = greet(find_home(os.environ).path, greeting_of(options) | wanted)
    tell_notes(answer)
    with link, link.makefile("rwb") as stream:
        stream.write(json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        stream.flush()
        while line := stream.readline():
            if not line.startswith(b"\x1e"):
                reply: Json = json.loads(line)
                return reply
            told = json.loads(line[1:]).get("progress")
            if progress is not None and told is not None:
                progress(told["done"], told["total"])
    raise DaemonError("the daemon stopped before it answered; the request may or may not have been carried out")


def ask_daemon(kind: str) -> Json | None:
    """Ask a running daemon for its status, or to go; None when none runs.

    Raises:
        DaemonError: one runs and does not answer.
    """
    from infinite_memory import local_socket
    from infinite_memory.greeting import greet

    home = find_home(os.environ).path
    try:
        link, answer = greet(home, {"kind": kind}, start=False)
    except DaemonError:
        if local_socket.is_held(local_socket.lock_path(home)):
            raise
        return None
    link.close()
    return answer


def _check_file(options: argparse.Namespace) -> None:
    if options.config is not None and not options.config.is_file():
        raise ConfigError(f"--config {options.config}: there is no such file")


def report(reply: Json) -> int:
    """Print a reply, or its error; gives the exit code."""
    if reply.get("status") == "OK":
        print(json.dumps(reply, ensure_ascii=False))
        return 0
    print(f"infinite-memory: {reply.get('error')}", file=sys.stderr)
    return 1
