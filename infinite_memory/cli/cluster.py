"""`infinite-memory cluster status`: the servers and daemons of a shared memory, and how level each daemon's index is. Starts nothing."""

from __future__ import annotations

import argparse
import json
from typing import Any

from infinite_memory.cli import tables
from infinite_memory.cli.daemon_requests import ask_daemon, report_not_running
from infinite_memory.cli.status import describe_duration

Json = dict[str, Any]


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    cluster = commands.add_parser("cluster", help="show the servers and daemons of a memory that several daemons share")
    actions = cluster.add_subparsers(dest="what", required=True, metavar="status")
    status = actions.add_parser("status", parents=[common], help="show servers, daemons and how level each index is")
    status.add_argument("--json", action="store_true", help="print it as JSON")


def run(options: argparse.Namespace) -> int:
    """Show how everything stands; 0 when all is well, 1 when something is not, or no daemon runs."""
    answer = ask_daemon("cluster")
    if answer is None:
        return report_not_running(options)
    reply = answer["cluster"]
    if reply["status"] != "OK":
        tables.note(reply["error"])
        return 1
    if options.json:
        told = {name: value for name, value in reply.items() if name != "status"}
        print(json.dumps({"running": True} | told, ensure_ascii=False))
    else:
        _print(reply)
    return 1 if reply["problems"] else 0


def _print(reply: Json) -> None:
    database = reply["database"]
    fields = {"database": f"MongoDB {database['version']}, {database['deployment']}"}
    fields |= {f"server {one['name']}": one["role"] for one in reply["servers"]}
    fields |= {f"daemon {one['host']}/{one['pid']}": _describe(one) for one in reply["daemons"]}
    tables.print_fields(fields)
    for problem in reply["problems"]:
        tables.note(problem)


def _describe(daemon: Json) -> str:
    """Write what a daemon told: its version, its index, and how long ago that was level with the database."""
    behind = daemon["behind_s"]
    level = "never level yet" if behind is None else f"level {describe_duration(behind)} ago"
    seen = "this one" if daemon["is_this"] else f"seen {describe_duration(daemon['seen_s'])} ago"
    return f"version {daemon['version']}, {daemon['engine']} index {daemon['index_state']}, {level}, {seen}"


COMMANDS = {"cluster": run}
