"""Replays sessions with real hook processes and kills processes at random moments; counts what was lost, doubled and left."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hooks_parts.conversations import Turn
from tests.hook_sessions import HookSession
from tests.processes import Installation, is_alive, until

WORKERS = 2
KILLED_HOOKS, KILLED_DAEMONS = 0.05, 0.02  # shares of the sessions in which one is killed
FIRST_AT = dt.datetime(2026, 1, 5, 9, 0, tzinfo=dt.UTC)
PATIENCE_S = 600.0


@dataclass
class Replayed:
    """What was said, by the instant that tells each turn from every other; and what came of it."""

    turns: dict[str, Turn] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    stored: Counter[str] = field(default_factory=Counter)
    ids: dict[str, str] = field(default_factory=dict)
    sessions: int = 0
    killed_hooks: int = 0
    killed_daemons: int = 0
    digests: int = 0
    left: int = 0

    @property
    def lost(self) -> int:
        """How many turns are not stored that a Stop or a SessionEnd acknowledged."""
        return len(self.acknowledged - self.stored.keys())

    @property
    def doubled(self) -> int:
        """How many turns are stored more than once."""
        return sum(count - 1 for count in self.stored.values())


def replay(
    memory: Installation, sessions: Sequence[tuple[str, list[Turn]]], rng: random.Random, *, kills: bool
) -> Replayed:
    """Hold each session, a project's name with its turns, one hook process an event; returns what came of all."""
    result, lock = Replayed(sessions=len(sessions)), threading.Lock()
    waiting = list(enumerate(sessions))
    waiting.reverse()

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                number, (project, turns) = waiting.pop()
                chances = rng.random(), rng.random(), rng.random()
            _hold(memory, number, project, turns, result, lock, chances if kills else (1.0, 1.0, 0.0))

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _settle(memory)
    _count(memory, sorted({project for project, _ in sessions}), result)
    return result


def _hold(
    memory: Installation, number: int, project: str, turns: Sequence[Turn], result: Replayed, lock: threading.Lock,
    chances: tuple[float, float, float],
) -> None:  # fmt: skip
    base = memory.home.parent
    session = HookSession(base / project, base / "transcripts" / project)
    _run(memory, session, "SessionStart")
    begin = FIRST_AT + dt.timedelta(minutes=30 * number)
    keys = []
    for place, turn in enumerate(turns):
        at = begin + dt.timedelta(seconds=place)
        keys.append(at.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        content = turn.text if turn.speaker == "user" else [{"type": "text", "text": turn.text}]
        session.write(session.entry(turn.speaker, content, at=at))
    if chances[0] < KILLED_DAEMONS and (pid := memory.daemon_pid()) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        result.killed_daemons += 1
    is_killed = chances[1] < KILLED_HOOKS
    is_done = _run(memory, session, "Stop", kill_after_s=0.15 * chances[2] if is_killed else None)
    is_done |= _run(memory, session, "SessionEnd")
    with lock:
        result.killed_hooks += is_killed
        result.turns.update(zip(keys, turns, strict=True))
        if is_done:
            result.acknowledged.update(keys)


def _run(memory: Installation, session: HookSession, event: str, *, kill_after_s: float | None = None) -> bool:
    """Run a hook as the client does, and kill it after a while; True if it ended by itself, with 0."""
    hook = subprocess.Popen(
        [sys.executable, "-m", "infinite_memory", "hook", event], env=memory.environ, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert hook.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        hook.stdin.write(json.dumps(session.event(event)).encode())
        hook.stdin.close()
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        hook.kill()
    return hook.wait() == 0


def _settle(memory: Installation) -> None:
    """Begin one more session, and wait until all that waits is stored."""
    session = HookSession(memory.home.parent / "settling", memory.home.parent / "transcripts" / "settling")
    spool = memory.home / "hooks" / "spool"

    def is_settled() -> bool:
        _run(memory, session, "SessionStart")
        time.sleep(1)
        return memory.daemon_pid() is not None and not list(spool.glob("*.json"))

    until(is_settled, "the spool is empty", PATIENCE_S)
    time.sleep(5)  # transcripts that have grown since their last event are read after the spool


def _count(memory: Installation, projects: Sequence[str], result: Replayed) -> None:
    client = memory.serve()
    try:
        for project in projects:
            cursor: dict[str, str] = {}
            while True:
                reply = client.ask("list_memories", scope=f"project ~/{project}", limit=1000, **cursor)
                for one in reply.get("results", []):
                    if "digest" in one["tags"]:
                        result.digests += 1
                    else:
                        result.stored[one["timestamp"]] += 1
                        result.ids[one["memory_id"]] = one["timestamp"]
                if not reply.get("next_cursor"):
                    break
                cursor = {"cursor": reply["next_cursor"]}
    finally:
        client.kill()
        memory.clients.remove(client)


def count_left(memory: Installation) -> int:
    """Stop the daemon, and count the processes of its home that run on."""
    memory.command("daemon", "stop", timeout_s=PATIENCE_S)
    with contextlib.suppress(AssertionError):
        until(lambda: not memory.processes(), "all has ended", 30)
    return len([pid for pid in memory.processes() if is_alive(pid)])


def spread(projects: dict[str, list[list[Turn]]], most: int, rng: random.Random) -> Iterator[tuple[str, list[Turn]]]:
    """Put the sessions of several projects into one row, each project's in their order; at most so many."""
    rows = {project: list(sessions) for project, sessions in projects.items()}
    for _ in range(most):
        project = rng.choices(list(rows), [len(rows[one]) for one in rows])[0] if any(rows.values()) else None
        if project is None:
            return
        yield project, rows[project].pop(0)
