"""Backups and jobs: a list with schedules and results; creating, verifying and restoring."""

from __future__ import annotations

import datetime as dt
from typing import Any

from starlette.responses import Response

from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.types import Progress
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, format_count
from infinite_memory.transports.http.page import work
from infinite_memory.transports.http.page.routing import Visit, page

Json = dict[str, Any]

LIST = "/page/backups"
JOBS = {
    "backup": "Backup",
    "retention": "Removing and merging by the retention settings",
    "tidy": "Purging what was forgotten long ago, compaction",
    "check_sidecar": "Comparing the index with the database",
}
REASONS = {"asked": "by hand", "scheduled": "daily", "before_restore": "before a restore"}
MODES = {
    "merge": "Add what is missing, change nothing",
    "replace": "Put it in the place of everything that is here now",
}


@page("GET", LIST)
async def show_backups(visit: Visit) -> Response:
    """List backups and jobs."""
    listed = await visit.queries.run("list_backups", {})
    status = await visit.app.services.status()
    jobs = [job | {"title": JOBS.get(job["name"], job["name"])} for job in status["jobs"]]
    rows = list(reversed(listed["backups"]))
    return visit.render(
        "backups.html", rows=rows, folder=listed["folder"], jobs=jobs, zone=visit.queries.zone, reasons=REASONS,
        schedule=visit.app.services.config.backup.time, works=reversed(list(visit.session.tasks.values())),
    )  # fmt: skip


@page("POST", "/page/backups/make")
async def make(visit: Visit) -> Response:
    """Write a backup, and read it back."""

    async def run(progress: Progress) -> str:
        backup = await visit.queries.run("backup_memory", {}, progress)
        return f"{backup['backup_file']} is written and read back: {format_count(backup['counts'].get('memories', 0), 'memory')}."

    return visit.go(work.begin(visit.session, visit.app.finishing, "Making a backup", LIST, run))


@page("POST", "/page/backups/verify")
async def verify(visit: Visit) -> Response:
    """Read a backup, and check every part of it."""
    file = _file(visit)

    async def run(progress: Progress) -> str:
        reply = await visit.queries.run("verify_backup", {"file": file}, progress)
        visit.session.verified[file] = format_instant(dt.datetime.now(dt.UTC))
        return f"{reply['backup_file']} is whole: {format_count(reply['counts'].get('memories', 0), 'memory')}."

    return visit.go(work.begin(visit.session, visit.app.finishing, f"Verifying {file}", LIST, run))


async def show_restore(visit: Visit) -> Response:
    """Show the effect of a restore, in each mode."""
    file = _file(visit)
    previews: list[Json] = []
    for mode, title in MODES.items():
        try:
            plan = await visit.queries.run("restore_backup", {"file": file, "mode": mode, "dry_run": True})
            previews.append({"mode": mode, "title": title, "told": plan, "fault": None})
        except InfiniteMemoryError as exc:
            previews.append({"mode": mode, "title": title, "told": None, "fault": str(exc)})
    return visit.render("restore.html", file=file, previews=previews)


page("GET", "/page/backups/restore", writes=True)(show_restore)


@page("POST", "/page/backups/restore", retry_view=show_restore)
async def restore(visit: Visit) -> Response:
    """Restore a backup.

    Raises:
        InvalidRequestError: it is not said how, or that everything may be replaced.
    """
    file, mode = _file(visit), visit.text("mode")
    if mode not in MODES:
        raise InvalidRequestError("mode", "choose how")
    if mode == "replace" and visit.text("sure") != "yes":
        raise InvalidRequestError("sure", "tick the box: everything that is here now is replaced")

    async def run(progress: Progress) -> str:
        done = await visit.queries.run("restore_backup", {"file": file, "mode": mode}, progress)
        saved = f" What was here before is in {done['saved_before']}." if "saved_before" in done else ""
        return f"{format_count(done['restored_memories'], 'memory')} restored, {done['skipped_memories']:,} were here already.{saved}"

    return visit.go(work.begin(visit.session, visit.app.finishing, f"Restoring {file}", LIST, run))


def _file(visit: Visit) -> str:
    """Return the name of a backup in the folder; a form cannot name a path.

    Raises:
        InvalidRequestError: no backup is named.
    """
    file = visit.text("file")
    if not file or "/" in file or "\\" in file:
        raise InvalidRequestError("file", "is no name of a backup in the folder")
    return file
