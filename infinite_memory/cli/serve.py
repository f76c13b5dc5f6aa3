"""`serve`: one client on this process's own pipes.

Standard output belongs to the protocol alone: its descriptor is moved aside before anything else is imported, and whatever a
library prints goes to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys


def serve(options: argparse.Namespace) -> int:
    """Answer requests from standard input until it ends or SIGTERM comes; 0 in both cases."""
    output = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    import asyncio

    from infinite_memory.cli.settings import home_and_config

    home, config = home_and_config(options)
    code = asyncio.run(_serve_here(home, config, output))
    sys.stderr.flush()
    os._exit(code)  # a client that does not read, or does not close, must not keep the process


async def _serve_here(home: object, config: object, output: int) -> int:
    import asyncio
    import signal

    from infinite_memory.app import App, new_session
    from infinite_memory.config import Config
    from infinite_memory.home import Home
    from infinite_memory.logs import open_log
    from infinite_memory.protocols.lines import serve_lines
    from infinite_memory.protocols.streams import DescriptorSink, DescriptorSource

    assert isinstance(home, Home)
    assert isinstance(config, Config)
    session = new_session(config, os.environ)
    home.make()
    open_log(home, config.log)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with App(config, home) as app:
        await serve_lines(
            app.contract(session), DescriptorSource(0), DescriptorSink(output), limit=config.limits.line_bytes, stop=stop
        )
    return 0
