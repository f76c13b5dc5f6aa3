"""Makes a release of this checkout: version, CHANGELOG, commit and tag. `scripts/release VERSION [--dry-run]`; standard library only.

``--check VERSION`` only tells whether the checkout is that release, ``--notes VERSION`` prints its part of the CHANGELOG; the release
workflow uses both.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = Path("infinite_memory", "__init__.py")
SERVER = Path("server.json")
CHANGELOG = Path("CHANGELOG.md")
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
UNRELEASED = "(not yet released)"


class ReleaseError(Exception):
    """The checkout cannot be released as it is; the message says why."""


def main() -> int:
    """Run the command; 0 when it is done."""
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__.split("\n", 1)[0])
    parser.add_argument("version", help="as 1.2.3, or 1.2.3rc1")
    parser.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
    parser.add_argument("--check", action="store_true", help="only tell whether the checkout is this release")
    parser.add_argument("--notes", action="store_true", help="only print what the CHANGELOG says of it")
    options = parser.parse_args()
    try:
        if options.notes:
            print(read_notes(ROOT, options.version))
        elif options.check:
            check_released(ROOT, options.version)
        else:
            release(ROOT, options.version, dt.datetime.now(dt.UTC).date(), dry_run=options.dry_run)
    except ReleaseError as exc:
        print(f"release: {exc}", file=sys.stderr)
        return 1
    return 0


def release(root: Path, version: str, today: dt.date, *, dry_run: bool) -> None:
    """Set the version in every file that names it, date the CHANGELOG, commit and tag.

    Raises:
        ReleaseError: the version is none or not newer, files are changed, or the CHANGELOG has no section for it.
    """
    if VERSION.fullmatch(version) is None:
        raise ReleaseError(f"{version!r} is not a version such as 1.2.3 or 1.2.3rc1")
    if changed := git(root, "status", "--porcelain"):
        raise ReleaseError(f"commit or put aside what is changed first:\n{changed}")
    if git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"there is a tag v{version} already")
    files = new_contents(root, version, today)
    if dry_run:
        print(f"release: would set {', '.join(map(str, files))} to {version}, commit and tag v{version}")
        return
    for file, text in files.items():
        (root / file).write_text(text, "utf-8")
    git(root, "add", *map(str, files))
    git(root, "commit", "--quiet", "--allow-empty", "--message", f"release: {version}")
    git(root, "tag", "--annotate", f"v{version}", "--message", f"{version}\n\n{read_notes(root, version)}")
    print(f"release: v{version} is tagged; git push --follow-tags publishes it")


def new_contents(root: Path, version: str, today: dt.date) -> dict[Path, str]:
    """Return the changed files of a release.

    Raises:
        ReleaseError: *version* is older than the last, or a file has no place for it.
    """
    code = (root / CODE).read_text("utf-8")
    before = read_version(root)
    if sortable(version) < sortable(before):
        raise ReleaseError(f"{version} is older than {before}")
    server = json.loads((root / SERVER).read_text("utf-8"))
    server["version"] = version
    for package in server["packages"]:
        package["version"] = version
    changelog = (root / CHANGELOG).read_text("utf-8")
    heading = f"## {version} {UNRELEASED}"
    if changelog.count(heading + "\n") != 1:
        raise ReleaseError(f"{CHANGELOG} has no section {heading!r}")
    return {
        CODE: code.replace(f'__version__ = "{before}"', f'__version__ = "{version}"'),
        SERVER: json.dumps(server, indent=2, ensure_ascii=False) + "\n",
        CHANGELOG: changelog.replace(heading, f"## {version} ({today.isoformat()})"),
    }


def check_released(root: Path, version: str) -> None:
    """Raise `ReleaseError` if the checkout is not the release *version*."""
    if read_version(root) != version:
        raise ReleaseError(f"the tag is of {version} and the code of {read_version(root)}")
    if json.loads((root / SERVER).read_text("utf-8"))["version"] != version:
        raise ReleaseError(f"{SERVER} is of another version")
    if UNRELEASED in read_notes(root, version, with_heading=True):
        raise ReleaseError(f"{CHANGELOG} says that {version} is not yet released")


def read_version(root: Path) -> str:
    """Return the version that the code says it is."""
    found = re.search(r'^__version__ = "([^"]+)"$', (root / CODE).read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise ReleaseError(f"{CODE} names no version")
    return found[1]


def read_notes(root: Path, version: str, *, with_heading: bool = False) -> str:
    """Return the part of the CHANGELOG about *version*."""
    pattern = rf"^(## {re.escape(version)} [^\n]*\n)(.*?)(?=^## |\Z)"
    found = re.search(pattern, (root / CHANGELOG).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    if found is None:
        raise ReleaseError(f"{CHANGELOG} says nothing of {version}")
    return (found[1] if with_heading else "") + found[2].strip()


def sortable(version: str) -> tuple[int, int, int, str, int]:
    """Return what versions are ordered by; a candidate comes before its release."""
    numbers, letters, count = re.fullmatch(r"([\d.]+)(a|b|rc)?(\d+)?", version).groups()  # type: ignore[union-attr]
    major, minor, patch = map(int, numbers.split("."))
    return major, minor, patch, letters or "z", int(count or 0)


def git(root: Path, *arguments: str) -> str:
    """Run git and return what it printed.

    Raises:
        ReleaseError: it failed.
    """
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
