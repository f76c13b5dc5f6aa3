"""`infinite-memory status`: shows the daemon, what is stored, and the state of its parts. Starts nothing; 1 if no daemon is running."""

from __future__ import annotations

import argparse
import json
from typing import Any

from infinite_memory.cli import daemon_requests, tables
from infinite_memory.errors import format_count

Json = dict[str, Any]


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    status = commands.add_parser("status", parents=[common], help="show what is remembered, and how the parts are")
    status.add_argument("--json", action="store_true", help="print it as JSON")


def run(options: argparse.Namespace) -> int:
    """Show the state of the memory."""
    answer = daemon_requests.ask_daemon("status")
    if answer is None:
        return daemon_requests.report_not_running(options)
    daemon = answer["status"]
    reply = daemon_requests.ask(options, {"action": "get_memory_stats"})
    if options.json:
        summary = {"stats": reply["stats"]} if reply["status"] == "OK" else {"error": reply["error"]}
        print(json.dumps({"running": True, "daemon": daemon} | summary, ensure_ascii=False))
        return 0 if reply["status"] == "OK" else 1
    fields = {
        "daemon": f"process {daemon['pid']}, version {daemon['version']}, for {describe_duration(daemon['uptime_s'])}",
        "home": daemon["home"],
        "clients": f"{daemon['sessions']}" + (f": {', '.join(names)}" if (names := daemon.get("clients")) else ""),
        "memory": f"{daemon['rss_bytes'] / 2**20:,.0f} MiB",
        "http": _http(daemon),
        "jobs": _failing(reply),
    }
    if reply["status"] != "OK":
        tables.print_fields(_present(fields))
        tables.note(reply["error"])
        return 1
    tables.print_fields(_present(fields | _stored(reply["stats"])))
    return 0


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _stored(stats: Json) -> Json:
    """Describe what is stored, and how it is searched."""
    model, index, archived = stats["model"], stats["sidecar"], stats["archived_scopes"]
    waiting, aside = stats["pending_embeddings"], stats["set_aside"]
    return {
        "memories": f"{stats['total_memories']:,} in {format_count(len(stats['scopes']), 'scope')}"
        + (f", {format_count(len(archived), 'scope')} archived" if archived else "")
        + (f", {stats['soft_deleted']:,} forgotten that can be brought back" if stats["soft_deleted"] else ""),
        "database": f"MongoDB {stats['mongodb']['version']}, {stats['mongodb']['deployment']}, {stats['db_size_mb']:,} MiB",
        "model": f"{model['name']}: {model['state']}" + (f" ({model['failure']})" if "failure" in model else ""),
        "index": f"{index['state']}, {format_count(index['count'], 'memory')}"
        + (f", {waiting:,} to be embedded" if waiting else ""),
        "set aside": f"{format_count(aside, 'document')} cannot be read; infinite-memory repair tells why"
        if aside
        else None,
        "backup": stats["last_backup"] or "none yet",
    }


def _failing(reply: Json) -> str | None:
    jobs = reply.get("stats", {}).get("failing_jobs", [])
    return "; ".join(f"{job['job']} failed: {job['failure']}" for job in jobs) or None


def _http(daemon: Json) -> str | None:
    http = daemon.get("http")
    return None if http is None else str(http.get("url") or http.get("error"))


def describe_duration(seconds: float) -> str:
    """Return a duration in words."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


COMMANDS = {"status": run}
