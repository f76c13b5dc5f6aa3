"""The soak, short: clients, faults, and nothing lost. `scripts/soak --clients 8 --minutes 10` is the long form."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.processes import LONG, ROOT, need_parts


def test_a_soak_with_faults_loses_nothing() -> None:
    need_parts()
    minutes, clients = ("1", "8") if LONG else ("0.3", "4")
    done = subprocess.run(
        [sys.executable, "-m", "scripts.soak_run", "--clients", clients, "--minutes", minutes],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["acknowledged"] > 10
