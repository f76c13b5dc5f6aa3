"""The command `infinite-memory`: arguments in, exit code out. No logic of its own, and nothing heavy is imported.

Exit codes: 0 all is well, 1 the request failed or something is wrong, 2 a usage or configuration fault.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from infinite_memory import __version__
from infinite_memory.errors import ConfigError, InfiniteMemoryError

CONTRACTS = ("native", "memory-server", "palace", "laravel", "agentmem")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(_run(options))
    except ConfigError as problem:
        print(f"infinite-memory: {problem}", file=sys.stderr)
        return 2
    except InfiniteMemoryError as problem:
        print(f"infinite-memory: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as problem:  # a home that cannot be written, say; it names the file
        print(f"infinite-memory: {problem}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    if options.command == "serve":
        from infinite_memory.cli.serve import serve

        return serve(options)
    from infinite_memory.cli import admin, connect, daemon, lifecycle, tokens

    run = {
        "daemon": daemon.daemon,
        "call": admin.call,
        "stats": admin.stats,
        "help": admin.help_,
        "doctor": admin.doctor,
        "optimize": admin.optimize,
        "reindex": admin.reindex,
        "config": admin.config,
        "connect": connect.connect,
        "tokens": tokens.run,
    } | lifecycle.COMMANDS
    return run[options.command](options)


def _parser() -> argparse.ArgumentParser:
    from infinite_memory.cli.lifecycle import add_parsers as add_lifecycle
    from infinite_memory.cli.progress import add_option
    from infinite_memory.cli.tokens import add_parser as add_tokens

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
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", parents=[common], help="answer requests on standard input and output")
    serve.add_argument("--scope", metavar="NAME", help="the scope that is active at first")
    serve.add_argument("--tools", choices=("core", "all"), help="which tools an MCP client is offered")
    serve.add_argument("--contract", choices=CONTRACTS, default=CONTRACTS[0], help="which contract is spoken")
    serve.add_argument("--palace", metavar="NAME", help="with --contract palace: the palace of calls that name none")
    serve.add_argument("--organization", metavar="SLUG", help="with --contract laravel: whose memories are seen")
    serve.add_argument("--user", metavar="NAME", help="with --contract laravel: for whom user memories are kept")
    serve.add_argument("--http", metavar="ADDR", help="also over HTTP, while this runs: 127.0.0.1:PORT")
    serve.add_argument("--in-process", action="store_true", help="without a daemon: everything in this process")

    daemon = commands.add_parser("daemon", help="run, start, stop or show the daemon").add_subparsers(
        dest="what", required=True, metavar="run|start|stop|status"
    )
    daemon.add_parser("run", parents=[common], help="run it here, for systemd, launchd and containers")
    daemon.add_parser("start", parents=[common], help="start it, if it does not run")
    daemon.add_parser("stop", parents=[common], help="let it finish and go")
    daemon.add_parser("status", parents=[common], help="show it").add_argument("--json", action="store_true")

    call = commands.add_parser("call", parents=[common], help="send one request and print the reply")
    call.add_argument("action", metavar="ACTION", help="name of a command, as `infinite-memory help` lists them")
    call.add_argument(
        "fields", nargs="?", default="{}", metavar="JSON", help='its fields, as {"query": "tea"}; - reads them'
    )

    commands.add_parser("stats", parents=[common], help="print statistics").add_argument("--json", action="store_true")
    helped = commands.add_parser("help", parents=[common], help="list the requests and their fields")
    helped.add_argument("action", nargs="?", metavar="ACTION")
    helped.add_argument("--json", action="store_true")
    commands.add_parser(
        "doctor", parents=[common], help="check database, model, index, permissions and disk"
    ).add_argument("--json", action="store_true")
    optimize = commands.add_parser("optimize", parents=[common], help="tidy up; changes no words unless told to")
    optimize.add_argument(
        "operations", nargs="*", metavar="OPERATION",
        help="compact, check_sidecar, purge_deleted (the default), deduplicate, merge_similar, prune or summarize",
    )  # fmt: skip
    optimize.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    optimize.add_argument("--json", action="store_true", help="print the reply as JSON, with what was concerned")
    reindex = commands.add_parser("reindex", parents=[common], help="build the index anew from the database")
    for long in (optimize, reindex):
        add_option(long)
    add_lifecycle(commands, common)
    add_tokens(commands, common)
    connect = commands.add_parser("connect", help="enter this memory into an MCP client's configuration")
    connect.add_argument(
        "client", choices=("claude-desktop", "claude-code", "cursor", "vscode", "codex", "windsurf"), metavar="CLIENT",
        help="claude-desktop, claude-code, cursor, vscode, codex or windsurf",
    )  # fmt: skip
    connect.add_argument("--print", action="store_true", help="only show what would be entered, and where")
    connect.add_argument("--remove", action="store_true", help="take it out again")
    connect.add_argument("--scope", metavar="NAME", help="the scope that is active at first")
    connect.add_argument("--tools", choices=("core", "all"), help="which tools the client is offered")
    commands.add_parser("config", parents=[common], help="show every setting and who set it").add_argument(
        "--json", action="store_true"
    )
    return parser
