"""What a hook adds to a turn: `infinite-memory hook` as a whole process over a warm daemon, beside `python -c pass` in the same run.

The two take turns, so a busy machine slows both. The daemon knows a few hundred exchanges of the project; prompts ask about them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.hook_sessions import HookSession  # noqa: E402
from tests.processes import Installation, until  # noqa: E402

EVENTS = ("UserPromptSubmit", "Stop")


def seconds(command: list[str], environ: dict[str, str], data: bytes) -> float:
    """Return how long a process takes, from its start to its end."""
    begin = time.perf_counter()
    subprocess.run(command, env=environ, input=data, capture_output=True, check=True)
    return time.perf_counter() - begin


def percentile(values: list[float], share: float) -> float:
    """Return the value that *share* of *values* do not exceed, in milliseconds."""
    return 1000 * sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    """Print p50 and p95 of each, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--exchanges", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Installation(Path(folder) / "home") as memory:
        base = Path(folder)
        known, session = (HookSession(base / "project", base / "transcripts") for _ in range(2))
        for number in range(options.exchanges):
            known.say(f"How is part {number} of the machine oiled?", f"Part {number} takes {number} drops each day.")
        known.run(memory, "Stop")
        until(lambda: not list((memory.home / "hooks" / "spool").glob("*.json")), "all is stored", 300)
        times: dict[str, list[float]] = {name: [] for name in ("python -c pass", *EVENTS)}
        hook = [str(Path(sys.executable).with_name("infinite-memory")), "hook"]
        if os.environ.get("PYTHONPATH"):  # a checkout other than the installed one
            hook = [sys.executable, "-m", "infinite_memory", "hook"]
        for number in range(options.runs):
            times["python -c pass"].append(seconds([sys.executable, "-c", "pass"], memory.environ, b""))
            for event in EVENTS:
                prompt = f"How is part {number} of the machine oiled?"
                data = json.dumps(session.event(event, **({"prompt": prompt} if event != "Stop" else {})))
                times[event].append(seconds([*hook, event], memory.environ, data.encode()))
        floor = percentile(times["python -c pass"], 0.95)
        for name, values in times.items():
            p95 = percentile(values, 0.95)
            print(f"{name:<18} p50 {1000 * statistics.median(values):6.1f} ms  p95 {p95:6.1f} ms  x {p95 / floor:4.2f}")
    print(f"runs: {options.runs}, exchanges stored: {options.exchanges}")


if __name__ == "__main__":
    main()
