"""The state of each job, kept in the store: which day's run is done, when it last ran, what failed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

from infinite_memory.store.base import Store

BACKUP, RETENTION, TIDY = "backup", "retention", "tidy"
JOBS = (BACKUP, RETENTION, TIDY, "check_sidecar")


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of one job. ``done_until`` is the due instant of the last completed run; ``failure`` is that of the last attempt."""

    name: str
    done_until: dt.datetime | None = None
    last_run_at: dt.datetime | None = None
    last_ok_at: dt.datetime | None = None
    said: str | None = None
    failure: str | None = None

    def succeeded(self, due: dt.datetime, at: dt.datetime, said: str) -> JobState:
        """Return the state after a successful run."""
        return replace(self, done_until=due, last_run_at=at, last_ok_at=at, said=said, failure=None)

    def failed(self, at: dt.datetime, failure: str) -> JobState:
        """Return the state after a failed run; it stays due."""
        return replace(self, last_run_at=at, failure=failure)

    def with_later_success(self, at: dt.datetime) -> JobState:
        """Return the state after the job's work was done in another way at *at*, which clears an earlier failure."""
        if self.failure is None or self.last_run_at is None or at < self.last_run_at:
            return self
        return replace(self, last_ok_at=at, failure=None)


async def load_state(store: Store, name: str) -> JobState:
    """Load a job's state, or a new one if it never ran. A later backup on request clears a failure of the backup job."""
    record = await store.get_meta(f"job.{name}") or {}
    instants = {key: record.get(key) for key in ("done_until", "last_run_at", "last_ok_at")}
    state = JobState(name, **instants, said=record.get("said"), failure=record.get("failure"))
    if name == BACKUP and state.failure is not None and (last := await store.get_meta("last_backup")):
        state = state.with_later_success(dt.datetime.fromisoformat(last["at"]))
    return state


async def save_state(store: Store, state: JobState) -> None:
    """Save a job's state."""
    await store.set_meta(
        f"job.{state.name}",
        {
            "done_until": state.done_until,
            "last_run_at": state.last_run_at,
            "last_ok_at": state.last_ok_at,
            "said": state.said,
            "failure": state.failure,
        },
    )


async def failing_jobs(store: Store) -> list[JobState]:
    """Return the jobs whose last run failed."""
    states = [await load_state(store, name) for name in JOBS]
    return [state for state in states if state.failure is not None]
