"""Health: the status of each component with advice, sizes, and every setting with its origin."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

from starlette.responses import Response

from infinite_memory.config import known_settings
from infinite_memory.errors import format_count
from infinite_memory.transports.http.page import work
from infinite_memory.transports.http.page.routing import Visit, page

Json = dict[str, Any]

FREE_BYTES = 500 * 1024 * 1024  # below this `doctor` warns, too
MIB = 1 << 20
LIST = "/page/health"
TITLES = {"mongodb": "database", "sidecar": "index files", "index": "index and database"}
"""Titles of checks whose own names are internal terms."""
REMEDIES = {
    "mongodb": "Look into the log; `infinite-memory doctor` says more. A server of your own is named by mongodb.uri.",
    "model": "`infinite-memory setup` makes the model ready. Memories are stored meanwhile and embedded later.",
    "sidecar": "Rebuild the index below.",
    "documents": "`infinite-memory repair` tells what can be done.",
    "index": "Rebuild the index below.",
    "home": "chmod 700 the home folder.",
    "disk": "Make room on the disk of the home folder.",
    "files": "Raise the hard limit of open files.",
    "jobs": "Backups and jobs has the reason; a failed job is tried again an hour later.",
    "embeddings": "They are embedded in the background; this goes away by itself.",
}


@page("GET", LIST)
async def show_health(visit: Visit) -> Response:
    """Show the checks, figures and settings; while the figures are being counted, without what they tell."""

    async def collect() -> Json:
        stats: Json = (await visit.queries.run("get_memory_stats", {}))["stats"]
        return stats

    home = visit.app.services.home
    parts, counted, status, of_home = await asyncio.gather(
        visit.queries.check_health(), visit.app.stats.find(collect), visit.app.services.status(),
        asyncio.to_thread(_check_home, home),
    )  # fmt: skip
    stats = None if counted is None else counted.stats
    checks = [*(_check(name, None if says == "ok" else says, "works") for name, says in parts.items())]
    checks += [*([] if stats is None else _check_figures(stats, status)), *of_home]
    return visit.render(
        "health.html", checks=checks, is_well=all(check["ok"] for check in checks), stats=stats, daemon=status, home=str(home),
        counted_at=None if counted is None else counted.at.astimezone(visit.queries.zone), settings=list_settings(visit),
        zone=visit.queries.zone, mib=MIB,
    )  # fmt: skip


@page("POST", "/page/health/reindex")
async def reindex(visit: Visit) -> Response:
    """Build the index again from the database."""

    async def run(progress: Any) -> str:
        reply = await visit.queries.run("reindex", {}, progress)
        return f"The index holds {format_count(reply['count'], 'memory')}."

    return visit.go(work.begin(visit.session, visit.app.finishing, "Rebuilding the index", LIST, run))


def _check(name: str, problem: str | None, when_good: str) -> Json:
    return {
        "name": TITLES.get(name, name),
        "ok": problem is None,
        "says": problem or when_good,
        "remedy": REMEDIES.get(name) if problem else None,
    }


def _check_figures(stats: Json, status: Json) -> list[Json]:
    aside = stats["set_aside"]
    checks = [_check("documents", f"{aside} cannot be read and are set aside" if aside else None, "all can be read")]
    stored = stats["total_memories"] + sum(stats["archived_scopes"].values())
    indexed = stats["sidecar"]["count"]
    differ = (
        f"the index holds {format_count(indexed, 'memory')}, the database {stored:,}" if indexed != stored else None
    )
    checks.append(
        _check("index", differ, f"{format_count(stored, 'memory')}, {'it is' if stored == 1 else 'all'} indexed")
    )
    if pending := stats["pending_embeddings"]:
        checks.append(
            _check(
                "embeddings",
                f"{format_count(pending, 'memory')} {'waits' if pending == 1 else 'wait'} for an embedding",
                "",
            )
        )
    failing = "; ".join(f"{job['job']}: {job['failure']}" for job in stats.get("failing_jobs", ()))
    checks.append(_check("jobs", failing or None, "none failed"))
    files = status.get("open_files") or {}
    if (max_scopes := files.get("max_scopes")) is not None and status.get("mongod_pid") is not None:
        count = len(stats["scopes"]) + len(stats["archived_scopes"])
        message = (
            f"{files['limit']:,} open files are enough for {format_count(max_scopes, 'scope')}; there are {count:,}"
        )
        checks.append(_check("files", message if count >= max_scopes else None, message))
    return checks


def _check_home(home: Path) -> list[Json]:
    mode = home.stat().st_mode & 0o777
    is_open = os.name == "posix" and mode & 0o077
    free = shutil.disk_usage(home).free
    return [
        _check("home", f"{home} is open to others (mode {mode:o})" if is_open else None, f"{home}, for its owner alone"),
        _check("disk", f"only {free / MIB:,.0f} MiB are free" if free < FREE_BYTES else None, f"{free / (MIB << 10):,.1f} GiB are free"),
    ]  # fmt: skip


def list_settings(visit: Visit) -> list[Json]:
    """Return every setting with its origin; secrets are hidden."""
    config, by_name = visit.app.services.config, known_settings()
    return [
        {"name": name, "value": by_name[name].display(value), "set_by": config.origins.get(name, "default"), "about": by_name[name].about}
        for name, value in config.values()
    ]  # fmt: skip
