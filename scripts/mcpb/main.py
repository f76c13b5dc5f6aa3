"""Entry of the Claude Desktop extension: starts the `infinite-memory` that is installed on this machine. Standard library only."""

from __future__ import annotations

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
    named = _option(given, "--command")
    command = named or shutil.which(NAME) or next((str(one) for one in USUAL if one.is_file()), None)
    if command is None:
        print(f"{NAME} is not installed here, or not where it is looked for; name its path in the extension's settings",
              file=sys.stderr)  # fmt: skip
        return 1
    home = _option(given, "--home")
    environ = os.environ | ({"INFINITE_MEMORY_HOME": home} if home else {})
    scope = _option(given, "--scope")
    arguments = [command, "serve", *(["--scope", scope] if scope else [])]
    if os.name == "posix":
        os.execve(command, arguments, environ)
    return subprocess.run(arguments, env=environ, check=False).returncode


def _option(given: list[str], name: str) -> str:
    """Give the value of an option; a setting that the user left empty comes as nothing, or as its own placeholder."""
    value = given[given.index(name) + 1] if name in given[:-1] else ""
    return "" if value.startswith("${") else value.strip()


if __name__ == "__main__":
    raise SystemExit(main())
