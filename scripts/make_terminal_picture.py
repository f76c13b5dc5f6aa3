"""Draws docs/assets/terminal.svg: what the program shows on a terminal, run for real in an empty home.

``python scripts/make_terminal_picture.py``. The letters are those of the reader's own monospace font: nothing is fetched.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.processes import ROOT, Installation
from tests.terminal import run_on_terminal

FILE = ROOT / "docs" / "assets" / "terminal.svg"
WIDTH, COLUMN = 100, 12.2
"""Characters of a line, and the width of one in the SVG."""
COMMANDS = (
    'remember "The boiler is serviced every October by Harbour Heating" --tag house',
    'remember "Ada has the spare key" --tag house',
    "search who looks after the heating",
    "recall today",
    "forget --tag house --yes",
    "undo",
)
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_ID = re.compile(r"[\w-]*terminal-\d+")


def session() -> Text:
    """Run the commands and return what a person sees."""
    text = Text()
    with (
        tempfile.TemporaryDirectory() as folder,
        Installation(Path(folder) / "home", {"TERM": "xterm-256color"}) as home,
    ):
        home.command("setup", "--quiet")
        home.call("health_check")
        for line in COMMANDS:
            command = [sys.executable, "-m", "infinite_memory", *shlex.split(line)]
            environ = home.environ | {"COLUMNS": str(WIDTH), "FORCE_COLOR": "1"}
            code, shown = run_on_terminal(command, environ, cwd=home.home.parent)
            if code:
                raise SystemExit(f"{line}: exit code {code}\n{shown}")
            text.append_text(Text.from_markup(f"[bold green]$[/] [bold]infinite-memory {line}[/]\n"))
            text.append_text(Text.from_ansi(shown.replace("\r\n", "\n").rstrip("\n")))
            text.append("\n")
    return text


def main() -> int:
    """Write the picture."""
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(session(), end="", soft_wrap=False)
    picture = console.export_svg(title="infinite-memory", theme=MONOKAI, unique_id="terminal")
    picture = _FONT.sub("", picture).replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
