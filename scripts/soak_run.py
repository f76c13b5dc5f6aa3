"""A soak: N clients with mixed commands, faults at random, M minutes, a seed; at the end, was anything lost?

Each client keeps a book of what was acknowledged, deleted or left in doubt (`soak_users`); faults come every few seconds
(`soak_faults`), but for the last part, in which the daemon's memory and open files are watched; the checks at the end hold the
books against the memory, MongoDB and the files (`soak_checks`).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from scripts.soak_checks import check
from scripts.soak_faults import Faults, own_disk, send_signal
from scripts.soak_users import MIB, PATIENCE_S, Shared, User
from tests.processes import Installation, rss_bytes

Json = dict[str, Any]
CALM_SHARE, CALM_S = 0.2, 20.0  # of the time, at the end, without faults; at least so long
WARM_S = 8.0  # a daemon's first seconds: its model loads, its caches fill
SECOND_MODEL_BYTES = 230 * MIB  # loaded when the first text of another language comes
LIFE_GROWTH_BYTES = 200 * MIB + SECOND_MODEL_BYTES  # a daemon may grow by this after its first seconds: memories come
CALM_GROWTH_BYTES = 64 * MIB  # in the second half of the calm: a daemon takes a minute or two to fill its caches
FILES_GROWTH = 40  # open files: a client more or less, a generation that is being written


@dataclasses.dataclass
class Watched:
    """What one daemon used: after its first seconds, and last."""

    since: float
    warm_s: float = WARM_S
    first_bytes: int = 0
    last_bytes: int = 0
    first_files: int = 0
    last_files: int = 0


class Soak:
    """One run over one home."""

    def __init__(self, shared: Shared, faults: Faults, chosen: list[str]) -> None:
        self.shared, self._faults, self._chosen = shared, faults, chosen
        self._installation = shared.installation
        self._watched: dict[int, Watched] = {}
        self._calm_watched: Watched | None = None
        self._calm_pid: int | None = None
        self._calm_s = 0.0

    def run(self, clients: int, seconds: float) -> list[User]:
        """Let *clients* work for some time, most of it under faults; gives them with their books."""
        users = [User(self.shared, number) for number in range(clients)]
        threads = [threading.Thread(target=user.work, name=f"client {user.number}") for user in users]
        threads += [threading.Thread(target=self._do_harm, name="faults")]
        threads += [threading.Thread(target=self._watch, name="the watch")]
        for thread in threads:
            thread.start()
        calm_s = self._calm_s = max(seconds * CALM_SHARE, min(CALM_S, seconds / 2))
        self.shared.over.wait(seconds - calm_s)
        self.shared.calm.set()
        self.shared.over.wait(calm_s)
        self.shared.over.set()
        for thread in threads:
            thread.join(2 * PATIENCE_S)
            if thread.is_alive():
                self.shared.wrong.append(f"{thread.name} hangs")
        return users

    def figures(self) -> Json:
        """Tell what the daemons used; what is too much goes to ``wrong``."""
        grown = {pid: one.last_bytes - one.first_bytes for pid, one in self._watched.items() if one.first_bytes}
        for pid, more in grown.items():
            if more > LIFE_GROWTH_BYTES:
                self.shared.wrong.append(f"daemon {pid} grew by {more / MIB:.0f} MiB")
        calm = self._calm_watched
        if calm is not None and calm.last_bytes - calm.first_bytes > CALM_GROWTH_BYTES:
            self.shared.wrong.append(f"the last daemon grew by {(calm.last_bytes - calm.first_bytes) / MIB:.0f} MiB")
        if calm is not None and calm.last_files - calm.first_files > FILES_GROWTH:
            self.shared.wrong.append(f"the last daemon has {calm.last_files} open files, {calm.first_files} before")
        slowest_s, slowest = self.shared.slowest
        return {
            "daemons_seen": len(self._watched),
            "most_mib": round(max((one.last_bytes for one in self._watched.values()), default=0) / MIB, 1),
            "most_growth_mib": round(max(grown.values(), default=0) / MIB, 1),
            "calm_growth_mib": round((calm.last_bytes - calm.first_bytes) / MIB, 1) if calm is not None else None,
            "open_files": [calm.first_files, calm.last_files] if calm is not None else None,
            "slowest_request": f"{slowest_s:.1f} s, {slowest}",
        }

    def _do_harm(self) -> None:
        dice = random.Random(f"{self.shared.seed} faults")
        harms = self._faults.all
        while self._chosen and not self.shared.calm.wait(dice.uniform(4, 12)):
            name = dice.choice(self._chosen)
            self.shared.counts[f"fault {name}"] += 1
            try:
                harms[name]()
            except Exception as exc:
                self.shared.wrong.append(f"the fault {name} failed: {exc!r}")
        if self._chosen:  # what was just removed for good is to leave the files all the same
            send_signal(self._installation.daemon_pid(), signal.SIGKILL)

    def _watch(self) -> None:
        while not self.shared.over.wait(1):
            pid = self._installation.daemon_pid()
            if pid is None:
                continue
            with contextlib.suppress(OSError):
                _note(self._watched.setdefault(pid, Watched(time.monotonic())), pid)
                if self.shared.calm.is_set():
                    if self._calm_watched is None or pid != self._calm_pid:
                        self._calm_watched, self._calm_pid = Watched(time.monotonic(), self._calm_s / 2), pid
                    _note(self._calm_watched, pid)


def _note(watched: Watched, pid: int) -> None:
    used, files = rss_bytes(pid), len(list(Path(f"/proc/{pid}/fd").iterdir()))
    if not watched.first_bytes and time.monotonic() - watched.since > watched.warm_s:
        watched.first_bytes, watched.first_files = used, files
    if watched.first_bytes:
        watched.last_bytes, watched.last_files = used, files


def main() -> int:
    """Run one soak; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and told")
    parser.add_argument("--faults", default="all", help="all, none, or names with commas between them")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the logs of a run that went wrong")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"soak: {options.clients} clients, {options.minutes:g} minutes, seed {seed}", file=sys.stderr)
    environ = {"INFINITE_MEMORY_MONGODB__TIMEOUT_S": "2", "INFINITE_MEMORY_SIDECAR__SAVE_EVERY_S": "5"}
    with tempfile.TemporaryDirectory(prefix="im-soak-") as name, own_disk(Path(name)) as disk:
        folder = Path(name)
        foreign = _foreign_sidecars(folder / "other")
        home = (disk or folder) / "home"
        home.mkdir()
        (folder / "logs").mkdir()
        (home / "logs").symlink_to(folder / "logs")  # or a full disk would keep us from learning what went wrong
        with Installation(home, environ) as installation:
            shared = Shared(installation, seed)
            faults = Faults(installation, random.Random(f"{seed} harm"), foreign, disk)
            chosen = choose_faults(options.faults, list(faults.all), parser)
            soak = Soak(shared, faults, chosen)
            users = soak.run(options.clients, 60 * options.minutes)
            faults.close()
            figures = soak.figures()
            try:
                figures |= check(shared, users)
            except AssertionError as exc:
                shared.wrong.append(f"the checks did not end: {exc}")
            if shared.wrong and options.keep is not None:
                _keep(installation, options.keep)
    report = {"seed": seed, **figures, "counts": dict(sorted(shared.counts.items())), "wrong": shared.wrong}
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return 1 if shared.wrong else 0


def choose_faults(named: str, known: list[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return the faults that an option names."""
    if named in ("all", "none"):
        return known if named == "all" else []
    chosen = named.split(",")
    if unknown := set(chosen) - set(known):
        parser.error(f"no such fault here: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return chosen


def _foreign_sidecars(home: Path) -> Path:
    """Make the sidecars of another home."""
    with Installation(home) as other:
        for number in range(20):
            assert other.call("store_memory", content=f"somebody else's no. {number}")["status"] == "OK"
        assert other.command("daemon", "stop").returncode == 0
    return home / "sidecars"


def _keep(installation: Installation, folder: Path) -> None:
    shutil.copytree(installation.home / "logs", folder / "logs", dirs_exist_ok=True)
    for client in installation.clients:
        if said := client.errors():
            with (folder / "clients.err").open("a", encoding="utf-8") as file:
                file.write(f"client {client.process.pid} ended with {client.process.poll()}:\n{said}\n")


if __name__ == "__main__":
    sys.exit(main())
