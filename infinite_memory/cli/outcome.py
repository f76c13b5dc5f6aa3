"""The outcome of a command for programs: one JSON object on standard output, while messages for people go to standard error.

For commands that do not use the daemon and so have no reply to print (`connect`, `schedule`, `setup`, `uninstall`). They fill the object
as they run; without ``--json`` it is discarded and messages go to standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the flag to the parser of a command."""
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, and lines on standard error"
    )


@contextlib.contextmanager
def collect_outcome(options: argparse.Namespace) -> Iterator[Json]:
    """Yield the object to fill, and print it at the end if *options* ask for it.

    A command that raises prints nothing on standard output: its error goes to standard error, as without ``--json``.
    """
    outcome: Json = {"status": "OK"}
    if not options.json:
        yield outcome
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield outcome
    print(json.dumps(outcome, ensure_ascii=False))
