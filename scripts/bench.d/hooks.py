"""What hooks cost, what they lose and what they bring.

Without `--sessions`: what a hook adds to a turn, the process that `connect` enters, whole, over a warm daemon, beside `python -c
pass` in the same run. The two take turns, so a busy machine slows both. The daemon knows a few hundred exchanges of the project;
prompts ask about them.

With `--sessions N`: N sessions are replayed with real hook processes, made of the conversations in `--data FOLDER` (several times;
see `hooks_parts.conversations`) and of our own of `tests/data/recall`, while hooks and daemon are killed at random moments. Printed
are lost and doubled turns, processes left, and then, for each set's questions put as prompts of later sessions, in how many the
evidence is shown, by budget and beside plain `retrieve_memory`; how much of what is shown is evidence, for either half of the
questions; and how many of 500 prompts about nothing that is remembered bring anything. With `--home FOLDER` what was replayed stays there,
and a second run only asks: the figures of a replay are those of the commit that replayed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from hooks_parts import evidence, replay  # noqa: E402
from hooks_parts.conversations import Conversations, Question, Turn, cut, load  # noqa: E402

from infinite_memory.cli.connect import HOOK_PROGRAM  # noqa: E402
from tests.data.recall.make_unrelated import make  # noqa: E402
from tests.hook_sessions import HookSession  # noqa: E402
from tests.processes import Installation, until  # noqa: E402

EVENTS = ("UserPromptSubmit", "Stop")
BUDGETS = (200, 600, 1500)
OWN = ROOT / "tests" / "data" / "recall" / "identifiers-11.json"
PAUSE_S = 0.2  # turns are seconds apart: what one hook left to the daemon is done when the next one runs
UNRELATED_SEEDS = range(5, 10)  # a hundred prompts each


def seconds(command: list[str], environ: dict[str, str], data: bytes) -> float:
    """Return how long a process takes, from its start to its end; after a pause."""
    time.sleep(PAUSE_S)
    begin = time.perf_counter()
    subprocess.run(command, env=environ, input=data, capture_output=True, check=True)
    return time.perf_counter() - begin


def percentile(values: list[float], share: float) -> float:
    """Return the value that *share* of *values* do not exceed, in milliseconds."""
    return 1000 * sorted(values)[min(len(values) - 1, int(share * len(values)))]


def own_set() -> Conversations:
    """Return our own set: sentences with names, paths, codes and the like, told in sessions of four turns, and asked for one by one."""
    found = Conversations()
    pairs = json.loads(OWN.read_text("utf-8"))
    for number, pair in enumerate(pairs):
        project = f"own-{number % 4}"
        said = Turn(f"own/{number}", "user", pair["text"], ""), Turn(f"own/{number}/a", "assistant", "Noted.", "")
        sessions = found.sessions.setdefault(project, [])
        if not sessions or len(sessions[-1]) >= 4:
            sessions.append([])
        sessions[-1] += said
        found.questions.append(
            Question(f"What do you know about {pair['query']}?", frozenset({f"own/{number}"}), project)
        )
    return found


def measure_sessions(options: argparse.Namespace) -> None:
    """Replay sessions, and print what was lost and what is found again."""
    rng = random.Random(options.seed)
    sets = {"own": own_set()} | {folder.name: load(folder) for folder in options.data}
    projects = {
        project: list(cut(sessions, options.turns))
        for one in sets.values()
        for project, sessions in one.sessions.items()
    }
    rows = list(replay.spread(projects, options.sessions, rng))
    with tempfile.TemporaryDirectory() as temporary, Installation((options.home or Path(temporary)) / "home") as memory:
        memory.home.parent.mkdir(parents=True, exist_ok=True)
        assert memory.command("daemon", "start").returncode == 0
        kept = memory.home.parent / "replayed.json"
        if not kept.exists():
            kept.write_text(json.dumps(replay_all(memory, rows, rng, kills=not options.no_kills)))
        replayed = json.loads(kept.read_text())
        print(*replayed["figures"], sep="\n", flush=True)
        turn_ids = replayed["turn_ids"]
        told = frozenset(turn_ids.values())
        for name, one in sets.items():
            asked = [question for question in one.questions if question.relevant <= told]
            rng.shuffle(asked)
            print_set(memory, name, asked[: options.questions], turn_ids, lists_others=options.list_others)
        unrelated = [
            Question(made["query"], frozenset(), rng.choice(sorted(projects)))
            for seed in UNRELATED_SEEDS
            for made in make(seed)
        ]
        shown = evidence.merged(evidence.by_hook(memory, unrelated, turn_ids, BUDGETS[1]))
        print(f"unrelated: {shown.with_any} of {shown.prompts} prompts bring anything")
        for client in memory.clients:
            client.kill()
        print(f"processes left: {replay.count_left(memory)}")


def replay_all(
    memory: Installation, rows: list[tuple[str, list[Turn]]], rng: random.Random, *, kills: bool
) -> dict[str, Any]:
    """Replay sessions; returns what is to be printed of that, and the turn of each memory's id."""
    begin = time.perf_counter()
    done = replay.replay(memory, rows, rng, kills=kills)
    took_s = time.perf_counter() - begin
    figures = [
        f"sessions {done.sessions}, turns {len(done.turns)}, acknowledged {len(done.acknowledged)}, in {took_s:.0f} s",
        f"killed: hooks {done.killed_hooks}, daemons {done.killed_daemons}; digests {done.digests}",
        f"lost {done.lost}, doubled {done.doubled}, model tokens 0 (no model is configured)",
    ]
    return {
        "figures": figures,
        "turn_ids": {one: done.turns[at].turn_id for one, at in done.ids.items() if at in done.turns},
    }


def print_set(
    memory: Installation, name: str, asked: list[Question], turn_ids: dict[str, str], *, lists_others: bool
) -> None:
    """Print what the questions of one set bring, by budget, and by half of the questions at the usual one."""
    plain = evidence.by_retrieval(memory.serve(), asked, turn_ids, BUDGETS)
    for tokens in BUDGETS:
        halves = evidence.by_hook(memory, asked, turn_ids, tokens)
        shown = evidence.merged(halves)
        print(f"{name:8} {tokens:5} tokens  hook   {shown.shares()}")
        print(f"{name:8} {tokens:5} tokens  plain  {plain[tokens].shares()}", flush=True)
        if tokens == BUDGETS[1]:
            for half, part in sorted(halves.items()):
                print(f"{name:8} half {half}      hook   {part.shares()}")
            if lists_others:
                print("shown, and not in the set's list:", *shown.others, sep="\n  ")


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--exchanges", type=int, default=300)
    parser.add_argument("--sessions", type=int, help="replay so many")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], help="a folder of conversations and questions"
    )
    parser.add_argument("--turns", type=int, default=4, help="most turns of a session that is replayed")
    parser.add_argument("--questions", type=int, default=1000, help="most questions of a set that are asked")
    parser.add_argument("--home", type=Path, help="where what was replayed stays, to be asked again")
    parser.add_argument("--no-kills", action="store_true", help="kill nothing")
    parser.add_argument(
        "--list-others", action="store_true", help="print what is shown and not listed as evidence, to be read"
    )
    parser.add_argument("--seed", type=int, default=22)
    options = parser.parse_args()
    if options.sessions:
        measure_sessions(options)
    else:
        measure_cost(options)


def measure_cost(options: argparse.Namespace) -> None:
    """Print p50 and p95 of each, and the ratios."""
    with tempfile.TemporaryDirectory() as folder, Installation(Path(folder) / "home") as memory:
        base = Path(folder)
        known, session = (HookSession(base / "project", base / "transcripts") for _ in range(2))
        for number in range(options.exchanges):
            known.say(f"How is part {number} of the machine oiled?", f"Part {number} takes {number} drops each day.")
        known.run(memory, "Stop")
        until(lambda: not list((memory.home / "hooks" / "spool").glob("*.json")), "all is stored", 300)
        times: dict[str, list[float]] = {name: [] for name in ("python -c pass", *EVENTS)}
        hook = [sys.executable, "-P", "-c", HOOK_PROGRAM, "hook"]  # what `connect` enters
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
