"""Entry of both Claude Desktop extensions, standard library only: starts the `infinite-memory` that comes with the extension, or else
the one that is installed on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAME = "infinite-memory"
USUAL = (
    Path.home() / ".local" / "bin" / NAME,
    Path.home() / ".local" / "bin" / f"{NAME}.exe",
    Path("/opt/homebrew/bin") / NAME,
    Path("/usr/local/bin") / NAME,
)


def main() -> int:
    """Run `infinite-memory serve` on this process's own pipes."""
    given = sys.argv[1:]
    command = _command(_option(given, "--command"))
    if command is None:
        print(f"{NAME} is not installed here, or not where it is looked for; name its path in the extension's settings",
              file=sys.stderr)  # fmt: skip
        return 1
    home = _option(given, "--home")
    environ = os.environ | ({"INFINITE_MEMORY_HOME": home} if home else {})
    scope = _option(given, "--scope")
    arguments = [*command, "serve", *(["--scope", scope] if scope else [])]
    if os.name == "posix":
        os.execve(arguments[0], arguments, environ)
    return subprocess.run(arguments, env=environ, check=False).returncode


def _command(named: str) -> list[str] | None:
    """Return what starts the memory: what the user named, the package beside this interpreter, or the installed program."""
    if named:
        return [named]
    if importlib.util.find_spec("infinite_memory") is not None:
        return [sys.executable, "-P", "-m", "infinite_memory"]
    found = shutil.which(NAME) or next((str(path) for path in USUAL if path.is_file()), None)
    return None if found is None else [found]


def _option(given: list[str], name: str) -> str:
    """Give the value of an option; a setting that the user left empty comes as nothing, or as its own placeholder."""
    value = given[given.index(name) + 1] if name in given[:-1] else ""
    return "" if value.startswith("${") else value.strip()


if __name__ == "__main__":
    raise SystemExit(main())
