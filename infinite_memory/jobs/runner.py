"""Runs the daily jobs: the backup with its rotation, retention, purge and compaction, and the check of the sidecar.

APScheduler's cron triggers wake the runner at each job's time, and a poll every 30 s does too (`wakeups`); which jobs are due follows
from the completed runs recorded in the store. So a run missed while the machine slept or no daemon ran happens once, at the next
start; of several daemons on one MongoDB one runs it (a lease); and a daemon that dies during a job leaves it due. A failure is
recorded, retried an hour later, and does not stop other jobs.

Why not APScheduler's job store and grace time: its state is in memory only, or needs a blocking driver; and it tracks when a job
was to start, while the question is which day's run is done. Its cron trigger may skip the night in which the clock
jumps over a job's time; the next poll finds that day's run due all the same (`schedule`).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from infinite_memory.backup.retention import scheduled_backup
from infinite_memory.clock import Clock, ClockWatch
from infinite_memory.config import Config
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.maintenance import Operation
from infinite_memory.errors import InfiniteMemoryError, SidecarNotReadyError, StoreUnavailableError, format_count
from infinite_memory.jobs.administration import Administration
from infinite_memory.jobs.consolidation import Tidying
from infinite_memory.jobs.purge_guard import PurgeGuard
from infinite_memory.jobs.schedule import last_due, next_due, parse_time
from infinite_memory.jobs.state import RETENTION, TIDY, JobState, load_state, save_state
from infinite_memory.jobs.wakeups import Wakeups
from infinite_memory.store.base import Store
from infinite_memory.transfer.serialization import instant_to_text

log = logging.getLogger(__name__)

RETRY_AFTER = dt.timedelta(hours=1)
LEASE = dt.timedelta(minutes=2)
RENEW_S = 30.0  # a quarter of the lease, so that one failed renewal does no harm
START_LOOK_S = 0.2  # poll interval until MongoDB is connected
STOP_S = 10.0  # grace period for a running job at shutdown; it stays due otherwise
CLOCK_FAULT = dt.timedelta(days=2)  # a run recorded further in the future than this was recorded with a wrong clock
DEFAULT_TIME = dt.time(3, 0)
_AFTER_BACKUP = {RETENTION: 15, TIDY: 30, "check_sidecar": 60}
"""Minutes after the backup at which the other jobs run: purged memories are then in the backup of the same night."""


@dataclass(frozen=True, slots=True)
class Job:
    """A daily job; ``run`` returns what it did."""

    name: str
    time: dt.time
    run: Callable[[], Awaitable[str]]


class Jobs:
    """The jobs of one daemon. Used from one event loop."""

    def __init__(
        self,
        engine: Engine,
        administration: Administration,
        zone: ZoneInfo,
        *,
        store: Store,
        config: Config,
        clock: Clock,
    ) -> None:
        self._engine, self._administration, self._zone = engine, administration, zone
        self._store, self._config, self._clock = store, config, clock
        self._purge_guard = PurgeGuard(store, config.retention.purge_deleted_days, clock)
        self._shift = dt.timedelta()  # clock changes not yet reported to the guard
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._wakeups: Wakeups | None = None
        self._starting: asyncio.Task[None] | None = None
        self._due_task: asyncio.Task[None] | None = None
        self._states: dict[str, JobState] = {}
        self._retried_at_once: set[str] = set()  # jobs that failed before this start: the cause may be fixed
        self._running: str | None = None
        self._closing = False
        self.jobs = self._make_jobs()

    def start(self) -> None:
        """Start once the store is connected; missed runs come first."""
        self._starting = asyncio.create_task(self._start(), name="jobs")

    async def close(self) -> None:
        """Give the running job time to finish; if it does not, it is due again at the next start."""
        self._closing = True
        if self._wakeups is not None:
            await self._wakeups.close()
        for task in (self._starting, self._due_task):
            if task is not None and not task.done():
                if self._running is not None:
                    await asyncio.wait({task}, timeout=STOP_S)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def status(self) -> list[dict[str, Any]]:
        """Return each job's last and next run, for `daemon status`."""
        now = self._clock()
        return [
            {
                "name": job.name,
                "running": self._running == job.name,
                "next_run": instant_to_text(next_due(now, job.time, self._zone)),
            }
            | _serialize_state(self._states.get(job.name, JobState(job.name)))
            for job in self.jobs
        ]

    def _note_shift(self, shift: dt.timedelta) -> None:
        self._shift = max(self._shift, abs(shift))

    def run_due_soon(self) -> None:
        """Run the due jobs in a task, unless one does so already."""
        if not self._closing and (self._due_task is None or self._due_task.done()):
            self._due_task = asyncio.create_task(self.run_due(), name="due jobs")

    async def run_due(self) -> None:
        """Run every job that is due, one after another; the outermost loop of the jobs."""
        if self._shift:
            with contextlib.suppress(InfiniteMemoryError):  # reported at the next wakeup
                await self._purge_guard.look((await self._state(TIDY)).last_ok_at, self._shift)
                self._shift = dt.timedelta()
        for job in self.jobs:
            if self._closing:
                return
            try:
                await self._run_if_due(job)
            except InfiniteMemoryError as exc:
                log.warning("the job %s is postponed: %s", job.name, exc, extra={"event": "job_put_off"})
            except Exception:
                log.exception("the job %s failed", job.name, extra={"event": "job_failed"})

    async def _start(self) -> None:
        while not self._store.identity:  # a backup needs MongoDB only, not the model or the index
            await asyncio.sleep(START_LOOK_S)
        await self._first_look()
        times = {job.name: job.time for job in self.jobs}
        self._wakeups = Wakeups(times, self._zone, self.run_due_soon, ClockWatch(self._clock), self._note_shift)
        self._wakeups.start()

    async def _first_look(self) -> None:
        """Record jobs that never ran as done up to now: a memory that is a minute old needs no backup for last night."""
        now = self._clock()
        for job in self.jobs:
            with contextlib.suppress(InfiniteMemoryError):
                state = await load_state(self._store, job.name)
                if state.done_until is None and state.last_run_at is None:
                    state = JobState(job.name, done_until=last_due(now, job.time, self._zone))
                    await save_state(self._store, state)
                elif state.failure is not None:
                    self._retried_at_once.add(job.name)
                self._states[job.name] = state
        if (tidied := self._states.get(TIDY)) is not None:
            with contextlib.suppress(InfiniteMemoryError):
                await self._purge_guard.look(tidied.last_ok_at)

    async def _run_if_due(self, job: Job) -> None:
        if self._find_due(job, await self._state(job.name)) is None:
            return
        copies = self._store.copies
        if not await copies.take_lease(job.name, self._holder, LEASE):
            return  # another daemon runs it; if that dies, the lease expires
        renewing = asyncio.create_task(self._renew(job.name))
        try:
            state = await self._state(job.name)
            due = self._find_due(job, state)  # another daemon may have just done it
            if due is not None:
                self._running = job.name
                await self._run(job, due, state)
        finally:
            self._running = None
            renewing.cancel()
            with contextlib.suppress(InfiniteMemoryError):
                await copies.release_lease(job.name, self._holder)

    async def _run(self, job: Job, due: dt.datetime, state: JobState) -> None:
        log.info("the job %s begins", job.name, extra={"event": "job_begins", "job": job.name})
        try:
            message = await job.run()
        except (StoreUnavailableError, SidecarNotReadyError):
            raise  # postponed until store and index are ready
        except InfiniteMemoryError as exc:
            log.warning(
                "the job %s failed: %s", job.name, exc.in_full(), extra={"event": "job_failed", "job": job.name}
            )
            state = state.failed(self._clock(), str(exc))
        except Exception:
            log.exception("the job %s failed", job.name, extra={"event": "job_failed", "job": job.name})
            state = state.failed(self._clock(), "internal error; the log has the details")
        else:
            log.info("the job %s is done: %s", job.name, message, extra={"event": "job_done", "job": job.name})
            state = state.succeeded(due, self._clock(), message)
        self._states[job.name] = state
        self._retried_at_once.discard(job.name)
        await save_state(self._store, state)

    def _find_due(self, job: Job, state: JobState) -> dt.datetime | None:
        """Return the due instant that the job is to run for now, or None."""
        now = self._clock()
        due = last_due(now, job.time, self._zone)
        done = state.done_until
        if done is not None and due <= done <= now + CLOCK_FAULT:
            return None
        is_waiting = state.failure is not None and job.name not in self._retried_at_once
        failed_at = state.last_run_at if is_waiting else None
        if failed_at is not None and abs(now - failed_at) < RETRY_AFTER:
            return None
        return due

    async def _state(self, name: str) -> JobState:
        state = self._states[name] = await load_state(self._store, name)
        return state

    async def _renew(self, name: str) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            with contextlib.suppress(InfiniteMemoryError):
                await self._store.copies.take_lease(name, self._holder, LEASE)

    def _make_jobs(self) -> list[Job]:
        named = self._config.backup.time
        first = parse_time(named) if named else DEFAULT_TIME
        jobs = [Job("backup", first, self._backup)] if named else []
        if self._retention_operations():
            jobs.append(Job(RETENTION, _later(first, _AFTER_BACKUP[RETENTION]), self._retention))
        jobs.append(Job(TIDY, _later(first, _AFTER_BACKUP[TIDY]), self._tidy))
        jobs.append(Job("check_sidecar", _later(first, _AFTER_BACKUP["check_sidecar"]), self._check))
        return jobs

    async def _backup(self) -> str:
        backup, removed = await scheduled_backup(self._administration.open_backups(), self._zone)
        return f"{backup.file.name}, {format_count(backup.memories, 'memory')}; {len(removed)} older removed"

    def _retention_operations(self) -> list[Tidying]:
        """Return the configured operations; each can be undone, and the backup of the same night has the state before."""
        settings = self._config.retention
        limits = (settings.max_age_days, settings.max_memories, settings.max_text_mb)
        switches = {
            Tidying.DEDUPLICATE: settings.deduplicate,
            Tidying.SUMMARIZE: settings.summarize,  # before the summarized turns may be pruned
            Tidying.PRUNE: any(limit is not None for limit in limits),
        }
        return [operation for operation, is_on in switches.items() if is_on]

    async def _retention(self) -> str:
        """Run the configured operations; ages count from the last run, so that a clock that is ahead for one run hides nothing early."""
        tidier = self._administration.open_tidier()
        state = self._states[RETENTION]
        as_of = self._purge_guard.get_reference(state.last_ok_at or state.done_until)
        operations = self._retention_operations()
        results = [await tidier.run(operation, dry_run=False, as_of=as_of) for operation in operations]
        return ", ".join(result.message for result in results)

    async def _tidy(self) -> str:
        last_ok_at = self._states[TIDY].last_ok_at
        waits_until, as_of = await self._purge_guard.look(last_ok_at), self._purge_guard.get_reference(last_ok_at)
        await self._purge_guard.note_purge(as_of)
        waiting = [f"purges_nothing_until_{waits_until:%Y-%m-%d}"] if as_of < waits_until else []
        operations = [Operation.COMPACT] if waiting else [Operation.PURGE_DELETED, Operation.COMPACT]
        done = await self._engine.maintenance.optimize(operations, as_of=as_of)
        return ", ".join([*waiting, *(result.message for result in done)])

    async def _check(self) -> str:
        done = await self._engine.maintenance.optimize([Operation.CHECK_SIDECAR])
        return ", ".join(result.message for result in done)


def _serialize_state(state: JobState) -> dict[str, Any]:
    out: dict[str, Any] = {
        "last_run": instant_to_text(state.last_run_at) if state.last_run_at else None,
        "last_ok": instant_to_text(state.last_ok_at) if state.last_ok_at else None,
        "said": state.said,
    }
    return out | ({"failure": state.failure} if state.failure else {})


def _later(time: dt.time, minutes: int) -> dt.time:
    return (dt.datetime.combine(dt.date(2000, 1, 1), time) + dt.timedelta(minutes=minutes)).time()
