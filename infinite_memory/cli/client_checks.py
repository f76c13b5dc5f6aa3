"""MCP client checks of `doctor`: which clients have this memory as a server, and whether its command exists.

They read the files that `connect` writes, and change nothing. Whether a client honours its file cannot be checked.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infinite_memory.cli.client_files import CLIENTS, Target, find_target
from infinite_memory.cli.client_hooks import NAME
from infinite_memory.cli.config_edit import find_entry
from infinite_memory.cli.hook_checks import AddFinding
from infinite_memory.platform_files import read_regular_text

SHORT_PATH_CLIENT = "claude-desktop"
"""Starts servers with a shorter PATH than a terminal's, and creates its own folder when first started."""


def check_clients(environ: Mapping[str, str], user: Path, add_finding: AddFinding) -> None:
    """Report for each client with settings whether it starts this memory; one line if none does."""
    has_server = [_check(client, find_target(client, environ, sys.platform, user), add_finding) for client in CLIENTS]
    if not any(has_server):
        message = "none has this memory among its servers (extensions are not seen): `infinite-memory connect CLIENT` enters it"
        add_finding("clients", None, message)


def _check(client: str, target: Target, add_finding: AddFinding) -> bool:
    """Check one client; True if it has an entry, or a file that cannot be parsed."""
    try:
        entry = find_entry(read_regular_text(target.file), target.key, NAME, is_toml=target.is_toml)
    except FileNotFoundError:
        return _report_missing(client, target, add_finding)
    except (OSError, ValueError) as exc:
        add_finding(f"server {client}", f"{target.file} is not understood: {exc}", "")
        return True
    if entry is None:
        return _report_missing(client, target, add_finding)
    problem = _find_problem(entry)
    wrong = None if problem is None else f"{target.file}: {problem}; `infinite-memory connect {client}` puts that right"
    good = f"entered in {target.file}; where it shows no tools, restart {target.title}"
    if client == SHORT_PATH_CLIENT and problem is None and not Path(entry["command"]).is_absolute():
        good = (
            f"entered in {target.file}; it starts {entry['command']} by its name, which {target.title} may not find:"
            f" `infinite-memory connect {client}` enters the full path"
        )
    add_finding(f"server {client}", wrong, good)
    return True


def _report_missing(client: str, target: Target, add_finding: AddFinding) -> bool:
    """Report that Claude Desktop, if it was ever started, has no entry; False, as `_check` returns without one."""
    if client == SHORT_PATH_CLIENT and target.file.parent.is_dir():
        message = f"not among the servers of {target.file} (an extension is not seen): `infinite-memory connect {client}` enters it"
        add_finding(f"server {client}", None, message)
    return False


def _find_problem(entry: Any) -> str | None:
    """Return why an entry cannot start; None if no problem is found."""
    command = entry.get("command") if isinstance(entry, dict) else None
    if not isinstance(command, str):
        return "the entry names no command"
    is_there = os.access(command, os.X_OK) if Path(command).is_absolute() else shutil.which(command) is not None
    return None if is_there else f"it starts {command}, which is not there"
