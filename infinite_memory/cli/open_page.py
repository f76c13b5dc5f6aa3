"""`infinite-memory open`: opens the memory in a browser, logged in. Turns HTTP on if it is off.

The login code is not in a URL or a command line, where others could read it: a file in the home, readable by its owner only, holds a
form with the code, which the browser submits. The code works once, and for two minutes.

Exit codes: 0 the browser was started, or the address printed; 1 the page cannot be opened; 2 usage or configuration error.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import sys
from pathlib import Path
from typing import Any

from infinite_memory.cli import daemon_requests
from infinite_memory.paths import find_home

FILE = "open.html"
FORM = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>InfiniteMemory</title></head>
<body>
<form method="post" action="{url}page/login/code">
<input type="hidden" name="code" value="{code}">
<button>Open InfiniteMemory</button>
</form>
<script>document.forms[0].submit();</script>
</body>
</html>
"""


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    opening = commands.add_parser("open", parents=[common], help="show the memory in a browser")
    opening.add_argument(
        "--print", action="store_true", help="start no browser; print the address and a code to log in with"
    )
    opening.add_argument("--json", action="store_true", help="the same as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Open the page."""
    from infinite_memory.daemon.handshake import greet

    home = find_home(os.environ).path
    greeting = daemon_requests.build_greeting(options) | {"kind": "page"}
    link, answer = greet(home, greeting)
    link.close()
    daemon_requests.report_notes(answer)
    if answer.get("status") != "OK":
        print(f"infinite-memory: {answer.get('error', 'this daemon has no page')}", file=sys.stderr)
        return 1
    url, code = str(answer["url"]), str(answer["code"])
    if options.json:
        print(json.dumps({"url": url, "code": code}))
        return 0
    if not options.print and _start_browser(home / FILE, url, code):
        print(f"{url} is opened in your browser.")
        print("If it shows nothing: infinite-memory open --print", file=sys.stderr)
        return 0
    print(url)
    print(f"Code to log in with, once and within two minutes: {code}")
    return 0


def _start_browser(file: Path, url: str, code: str) -> bool:
    """Write the form to *file* and open it in a browser; False if there is no browser."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(FORM.format(url=html.escape(url), code=html.escape(code)))
    return browser.open(file.as_uri())


COMMANDS = {"open": run}
