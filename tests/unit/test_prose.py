"""The documents' spelling and prose: `typos` with the project's dictionary (`_typos.toml`), `proselint` with its checks (`proselint.json`).

Code is no prose: blocks and code in lines are left out before proselint reads a page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent
PROSE = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "examples"]
_CODE = re.compile(r"^```.*?^```$|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)|^#+ .*$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return every page of prose but for the tables of phrases in other languages."""
    files = [ROOT / name for name in PROSE if name.endswith(".md")] + sorted((ROOT / "docs").rglob("*.md"))
    return [file for file in files if file.parent.name != "time"]


def test_the_documents_are_spelt_right() -> None:
    done = subprocess.run(
        [BIN / "typos", "--config", "_typos.toml", "--format", "brief", *PROSE],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), f"mend the page, or add the word to _typos.toml\n{done.stdout}"


def test_the_prose_of_the_documents_is_plain(tmp_path: Path) -> None:
    for page in pages():
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_CODE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text("utf-8")), "utf-8")
    done = subprocess.run(
        [BIN / "proselint", "check", "--config", str(ROOT / "proselint.json"), *map(str, sorted(tmp_path.rglob("*.md")))],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
