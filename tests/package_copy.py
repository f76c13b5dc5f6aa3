"""A copy of the package in a folder of the test's, to be changed as a contributor would change it, and run as a process of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.processes import ROOT, Installation

PACKAGE = "infinite_memory"


def copy_package(folder: Path) -> Path:
    """Copy the package into *folder*; returns the copy."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=ignored))


def install(package: Path, home: Path, **environ: str) -> Installation:
    """Return a home whose commands and daemon run *package*."""
    return Installation(home, {"PYTHONPATH": str(package.parent), **environ})


def apply_diff(diff: str, root: Path) -> list[str]:
    """Apply a unified diff below *root*; returns the files that it changes. Where a hunk stands is told by its lines, not its numbers."""
    changed = []
    for part in re.split(r"^(?=--- )", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@.*$\n", part, flags=re.MULTILINE)
        name = head.splitlines()[1].removeprefix("+++ b/")
        text = (root / name).read_text("utf-8")
        for hunk in hunks:
            lines = hunk.splitlines()
            before = "".join(f"{line[1:]}\n" for line in lines if line[:1] in " -" and line)
            after = "".join(f"{line[1:]}\n" for line in lines if line[:1] in " +" and line)
            assert text.count(before) == 1, f"{name} has not once:\n{before}"
            text = text.replace(before, after)
        (root / name).write_text(text, "utf-8")
        changed.append(name)
    return changed
