"""The command `infinite-memory`: arguments in, exit code out. No logic of its own, and nothing heavy is imported.

Exit codes: 0 all is well, 1 the request failed or something is wrong, 2 a usage or configuration fault or not confirmed, 75 busy
(`backup --lock`), 130 interrupted. `docs/terminal.md` has them for every command.
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
"""The module of each command, in the order in which help lists them. A module has `add_parsers` and `COMMANDS`."""

_MODULE_OF = {command: module for module, commands in MODULES.items() for command in commands}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
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
            sys.stdout.flush()  # here, where a reader that left is dealt with
        return code
    except ConfigError as exc:
        print(f"infinite-memory: {exc}", file=sys.stderr)
        return 2
    except InfiniteMemoryError as exc:
        print(f"infinite-memory: {exc.in_full()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except RecursionError:  # JSON on the command line that is nested without end
        print("infinite-memory: the input is nested too deeply", file=sys.stderr)
        return 2
    except OSError as exc:  # a home that cannot be written, say; it names the file
        print(f"infinite-memory: {exc}", file=sys.stderr)
        return 1


def _open_missing() -> None:
    """Open what the parent closed: or the next file would be taken for standard input, output or errors."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _run(options: argparse.Namespace) -> int:
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[options.command]}")
    return int(module.COMMANDS[options.command](options))


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or with *only* of that module's: `serve` starts without the modules of the others."""
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
        """The parser of one command: what it does not know is refused with its own usage."""

        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            parsed, unknown = super().parse_known_args(args, namespace)
            if unknown:
                self.error(f"unrecognized arguments: {' '.join(unknown)}")
            return parsed, unknown

    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    for module in MODULES if only is None else (only,):
        importlib.import_module(f"{__name__}.{module}").add_parsers(commands, common)
    return parser
