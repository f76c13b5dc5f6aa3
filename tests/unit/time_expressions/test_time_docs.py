"""docs/time.md and the tables beside it say what the tests run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_pages_about_time_are_current() -> None:
    script = ROOT / "scripts" / "make_time_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)

    assert done.returncode == 0, "docs/time.md or docs/time/ is out of date: run scripts/make_time_docs.py"
