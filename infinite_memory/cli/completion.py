"""`infinite-memory completion bash|zsh|fish`: a completion script for commands, flags and files, generated from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHELLS = ("bash", "zsh", "fish")
FILES = ("FILE", "PATH")  # metavars of arguments that take a file


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    completion = commands.add_parser("completion", help="print what completes this command in a shell")
    completion.add_argument("shell", choices=SHELLS)


def run(options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    import shtab

    from infinite_memory.cli import build_parser

    parser = build_parser()

    for action in _actions(parser):
        if action.metavar in FILES or action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of all commands below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


COMMANDS = {"completion": run}
