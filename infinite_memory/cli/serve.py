"""`serve`: one client on this process's own pipes.

By default it is a thin pipe to the home's daemon and imports nothing but the standard library. With ``--in-process`` the whole
memory runs here. Either way standard output belongs to the protocol alone: its descriptor is moved aside first, and whatever
a library prints goes to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from infinite_memory.cli.reach import NATIVE
from infinite_memory.errors import DaemonError

if TYPE_CHECKING:
    from infinite_memory.config import Config
    from infinite_memory.home import Home
    from infinite_memory.protocols.mcp import McpSession

LOCK_WAIT_S = 1.0  # who only looks whether a daemon runs holds the lock for a moment


def serve(options: argparse.Namespace) -> int:
    """Answer requests from standard input until it ends or SIGTERM comes; 0 in both cases."""
    _open_missing()
    output = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    if options.contract != NATIVE:
        from infinite_memory.cli.foreign_settings import adopt

        for warning in adopt(options.contract, os.environ):
            print(f"infinite-memory: {warning}", file=sys.stderr)
    if options.in_process:
        code = _serve_here(options, output)
    else:
        from infinite_memory.cli.reach import greeting_of
        from infinite_memory.client import Pipe
        from infinite_memory.home import find_home

        code = Pipe(find_home(os.environ).path, greeting_of(options), 0, output).run()
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(code)  # a client that does not read, or does not close, must not keep the process


def _open_missing() -> None:
    """Open what the parent closed: or the next file would be taken for standard input, output or errors."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one


def _serve_here(options: argparse.Namespace, output: int) -> int:
    import asyncio

    from infinite_memory import local_socket
    from infinite_memory.app import check_model
    from infinite_memory.cli.reach import home_and_config
    from infinite_memory.logs import open_log

    home, config = home_and_config(options)
    home.make()
    open_log(home, config.log)
    check_model(config)
    with local_socket.locked(local_socket.lock_path(home.path), wait=False, patience_s=LOCK_WAIT_S) as held:
        if not held:
            raise DaemonError(
                f"another process serves {home.path}; leave out --in-process to share it, or stop it (infinite-memory daemon stop)"
            )
        return asyncio.run(_serve_app(home, config, options, output))


async def _serve_app(home: Home, config: Config, options: argparse.Namespace, output: int) -> int:
    import asyncio
    import contextlib
    import signal

    from infinite_memory.app import App, new_session
    from infinite_memory.cli.reach import contract_options
    from infinite_memory.protocols.session import serve_session
    from infinite_memory.protocols.streams import DescriptorSink, DescriptorSource
    from infinite_memory.web.companion import open_companion

    session = new_session(config, os.environ)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    chosen = contract_options(options)
    async with App(config, home) as app, contextlib.AsyncExitStack() as stack:

        def open_rpc() -> McpSession:
            return app.speak(options.contract, session, os.environ, chosen)

        open_rpc()  # what is wrong with the options is said now
        if "http" in chosen:
            url = await stack.enter_async_context(
                open_companion(
                    chosen["http"], options.contract, open_rpc, config.http, home.path,
                    body_bytes=config.limits.line_bytes,
                )
            )  # fmt: skip
            print(f"infinite-memory: HTTP at {url}", file=sys.stderr)
        await serve_session(
            (lambda: app.contract(session)) if options.contract == NATIVE else None,
            open_rpc,
            DescriptorSource(0),
            DescriptorSink(output),
            limit=config.limits.line_bytes,
            stop=stop,
        )
    return 0
