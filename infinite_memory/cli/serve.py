"""`serve`: serves one client over standard input and output.

By default it is a thin proxy to the home's daemon and imports only the standard library. With ``--in-process`` the whole
memory runs here. Either way standard output is reserved for the protocol: its descriptor is moved first, and anything that
a library prints goes to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from infinite_memory.contracts.registry import get_spec, list_names, list_options
from infinite_memory.errors import DaemonError

if TYPE_CHECKING:
    from infinite_memory.config import Config
    from infinite_memory.paths import Home
    from infinite_memory.transports.mcp import McpSession

LOCK_WAIT_S = 1.0  # a process that checks for a daemon holds the lock for a moment


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    serve = commands.add_parser("serve", parents=[common], help="answer requests on standard input and output")
    serve.add_argument("--scope", metavar="NAME", help="the scope that is active at first")
    serve.add_argument("--tools", choices=("core", "all"), help="which tools an MCP client is offered")
    contracts = list_names()
    serve.add_argument("--contract", choices=contracts, default=contracts[0], help="which contract is spoken")
    for spec, option in list_options():
        about = f"with --contract {spec.name}: {option.about}"
        serve.add_argument(f"--{option.name}", metavar=option.metavar, help=about)
    serve.add_argument("--http", metavar="ADDR", help="also over HTTP, while this runs: 127.0.0.1:PORT")
    serve.add_argument("--in-process", action="store_true", help="without a daemon: everything in this process")


def serve(options: argparse.Namespace) -> int:
    """Answer requests from standard input until it is closed or SIGTERM arrives; 0 in both cases."""
    output = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    spec = get_spec(options.contract)
    for warning in spec.adopt(os.environ):
        print(f"infinite-memory: {warning}", file=sys.stderr)
    if os.isatty(0):
        print("infinite-memory: waiting for a client's requests, a line each; Ctrl-C ends it", file=sys.stderr)
    if options.in_process:
        code = _serve_here(options, output)
    else:
        from infinite_memory.cli.daemon_requests import build_greeting
        from infinite_memory.daemon.stdio_proxy import StdioProxy
        from infinite_memory.paths import find_home
        from infinite_memory.transports.strict_json import Speaks

        speaks = None if spec.speaks_lines else Speaks.JSON_RPC
        code = StdioProxy(find_home(os.environ).path, build_greeting(options), 0, output, speaks).run()
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(code)  # a client that does not read or close its pipes must not keep the process alive


def _serve_here(options: argparse.Namespace, output: int) -> int:

    from infinite_memory.bootstrap import check_settings, prepare_process
    from infinite_memory.cli.daemon_requests import home_and_config
    from infinite_memory.daemon import ipc
    from infinite_memory.logging_setup import open_log
    from infinite_memory.loop_watchdog import run_watched

    home, config = home_and_config(options)
    prepare_process()
    home.make()
    open_log(home, config.log)
    check_settings(config)
    with ipc.locked(ipc.lock_path(home.path), wait=False, patience_s=LOCK_WAIT_S) as is_locked:
        if not is_locked:
            raise DaemonError(
                f"another process serves {home.path}; leave out --in-process to share it, or stop it (infinite-memory daemon stop)"
            )
        return run_watched(_serve_app(home, config, options, output))


async def _serve_app(home: Home, config: Config, options: argparse.Namespace, output: int) -> int:
    import asyncio
    import contextlib

    from infinite_memory.bootstrap import Application, new_session
    from infinite_memory.cli.daemon_requests import contract_options
    from infinite_memory.daemon.process_signals import add_handler
    from infinite_memory.transports.http.session_server import open_companion
    from infinite_memory.transports.protocol_detection import serve_session
    from infinite_memory.transports.stdio import DescriptorSink, DescriptorSource

    session = new_session(config, os.environ)
    session.is_local = True
    stop = asyncio.Event()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        add_handler(asyncio.get_running_loop(), name, stop.set)
    chosen = contract_options(options)
    async with Application(config, home) as app, contextlib.AsyncExitStack() as stack:

        def open_rpc() -> McpSession:
            return app.speak(options.contract, session, os.environ, chosen)

        open_rpc()  # report invalid options now
        if "http" in chosen:
            url = await stack.enter_async_context(
                open_companion(
                    chosen["http"], options.contract, open_rpc, config.http, home.path,
                    body_bytes=config.limits.line_bytes,
                )
            )  # fmt: skip
            print(f"infinite-memory: HTTP at {url}", file=sys.stderr)
        await serve_session(
            app.find_lines(options.contract, session, os.environ, chosen),
            open_rpc,
            DescriptorSource(0),
            DescriptorSink(output),
            limit=config.limits.line_bytes,
            stop=stop,
        )
    return 0


COMMANDS = {"serve": serve}
