"""The `infinite-memory` command: dispatches arguments to a command and returns its exit code. Nothing heavy is imported here.

Exit codes: 0 success, 1 the request failed or a problem was found, 2 usage or configuration error or not confirmed, 75 busy
(`backup --lock`), 130 interrupted. `docs/terminal.md` lists them for every command.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory import __version__
from infinite_memory.errors import ConfigError, InfiniteMemoryError

if TYPE_CHECKING:
    import argparse

MODULES = {
    "serve": ("serve",),
    "daemon": ("daemon",),
    "memories": ("remember", "search", "recall", "show", "edit"),
    "why": ("why",),
    "move": ("move",),
    "forget": ("forget", "undo"),
    "tail": ("tail",),
    "status": ("status",),
    "open_page": ("open",),
    "admin": ("call", "stats", "help", "doctor", "optimize", "reindex", "config"),
    "lifecycle": ("backup", "verify", "restore", "export", "import"),
    "schedule": ("schedule",),
    "scopes": ("scopes",),
    "repair": ("repair",),
    "tokens": ("tokens",),
    "setup": ("setup",),
    "cluster": ("cluster",),
    "index": ("index",),
    "uninstall": ("uninstall",),
    "completion": ("completion",),
    "capture": ("capture", "hook"),
    "connect": ("connect",),
}
"""The modules and their commands, in the order of the help. A module has `add_parsers` and `COMMANDS`."""

_MODULE_OF = {command: module for module, commands in MODULES.items() for command in commands}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_missing()
    from infinite_memory.cli.terminal import printing_safely

    with printing_safely():
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        options = build_parser(_MODULE_OF.get(words[0]) if words else None).parse_args(words)
        code = int(_run(options))
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where BrokenPipeError is handled
        return code
    except ConfigError as exc:
        print(f"infinite-memory: {exc}", file=sys.stderr)
        return 2
    except InfiniteMemoryError as exc:
        print(f"infinite-memory: {exc.in_full()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except RecursionError:  # deeply nested JSON on the command line
        print("infinite-memory: the input is nested too deeply", file=sys.stderr)
        return 2
    except OSError as exc:  # for example a home that is not writable; the message names the file
        print(f"infinite-memory: {exc}", file=sys.stderr)
        return 1


def _open_missing() -> None:
    """Open standard streams that the parent closed, or the next opened file would become one of them."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # opens the lowest free descriptor, which is this one
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _run(options: argparse.Namespace) -> int:
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[options.command]}")
    return int(module.COMMANDS[options.command](options))


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or of module *only*: `serve` starts without importing the others."""
    import argparse

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", type=Path, metavar="FILE", help="settings file; default: config.toml in the home")
    common.add_argument(
        "--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="set one setting; may be repeated"
    )
    parser = argparse.ArgumentParser(
        prog="infinite-memory",
        description="A long-term memory for assistants that stays on your machine.",
        epilog="INFINITE_MEMORY_HOME names the home folder; every setting is INFINITE_MEMORY_<SECTION>__<NAME>.",
    )
    parser.add_argument("--version", action="version", version=__version__)

    class CommandParser(argparse.ArgumentParser):
        """The parser of one command: rejects unknown arguments with the command's own usage."""

        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            parsed, unknown = super().parse_known_args(args, namespace)
            if unknown:
                self.error(f"unrecognized arguments: {' '.join(unknown)}")
            return parsed, unknown

    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    for module in MODULES if only is None else (only,):
        importlib.import_module(f"{__name__}.{module}").add_parsers(commands, common)
    return parser
