"""`infinite-memory cluster`: `status` shows the servers and daemons of a shared memory and how current each daemon's index is, and starts
nothing; `prepare` shards the collections of a very large memory on a sharded cluster."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from infinite_memory.cli import daemon_requests, tables
from infinite_memory.cli.daemon_requests import ask_daemon, report_not_running
from infinite_memory.cli.status import describe_duration
from infinite_memory.errors import DaemonError, format_count
from infinite_memory.paths import find_home

Json = dict[str, Any]

MIN_COUNT = 1_000_000
"""Documents of a collection that fit on one shard: about 4 GB of memories."""


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    cluster = commands.add_parser("cluster", help="show the servers and daemons of a memory that several daemons share")
    actions = cluster.add_subparsers(dest="what", required=True, metavar="status | prepare")
    status = actions.add_parser("status", parents=[common], help="show servers, daemons and how level each index is")
    status.add_argument("--json", action="store_true", help="print it as JSON")
    prepare = actions.add_parser(
        "prepare", parents=[common], help="shard the collections of very many memories, in a sharded cluster"
    )
    prepare.add_argument("--yes", action="store_true", help="do it; without, it is only told what would be done")
    prepare.add_argument(
        "--min-memories", type=int, default=MIN_COUNT, metavar="N",
        help=f"shard collections of at least so many (default: {MIN_COUNT:,})",
    )  # fmt: skip
    prepare.add_argument("--json", action="store_true", help="print it as JSON")


def run(options: argparse.Namespace) -> int:
    """Run `status` or `prepare`."""
    return _prepare(options) if options.what == "prepare" else _show(options)


def _prepare(options: argparse.Namespace) -> int:
    """Shard, or print what would be sharded; 0 on success, 1 on failure, 2 for an invalid number."""
    if options.min_memories < 1:
        tables.note(f"--min-memories: a whole number from 1 was expected, not {options.min_memories}")
        return 2
    reply = _ask_to_prepare(options)
    if reply["status"] != "OK":
        tables.note(reply["error"])
        return 1
    if options.json:
        fields = {name: value for name, value in reply.items() if name != "status"}
        print(json.dumps({"done": options.yes} | fields))
        return 0
    for row in reply["collections"]:
        state = "is sharded already" if row["is_sharded"] else "was sharded" if options.yes else "would be sharded by"
        print(f"{row['name']}: about {format_count(row['count'], 'document')}, {state}")
        for command in [] if row["is_sharded"] else row["commands"]:
            print(f"  {json.dumps(command)}")
    if not reply["collections"]:
        print(f"no collection has {format_count(reply['min_count'], 'document')}: nothing is to be sharded")
    if not reply["is_routed"]:
        tables.note(f"the database is a {reply['deployment']}: this can be done through a router (mongos) alone")
    elif not options.yes and reply["collections"]:
        tables.note("nothing was changed; --yes does it")
    return 0


def _ask_to_prepare(options: argparse.Namespace) -> Json:
    from infinite_memory.daemon.handshake import greet

    request = {"kind": "cluster_prepare", "min_count": options.min_memories, "dry_run": not options.yes}
    link, answer = greet(find_home(os.environ).path, daemon_requests.build_greeting(options) | request)
    daemon_requests.report_notes(answer)
    with link, link.makefile("rb") as stream:
        if (reply := daemon_requests.read_reply(stream, None)) is not None:
            return reply
    raise DaemonError("the daemon stopped before all was sharded; run it again, what is done stays done")


def _show(options: argparse.Namespace) -> int:
    """Show the state of the cluster; 0 if all is well, 1 if not, or if no daemon is running."""
    answer = ask_daemon("cluster")
    if answer is None:
        return report_not_running(options)
    reply = answer["cluster"]
    if reply["status"] != "OK":
        tables.note(reply["error"])
        return 1
    if options.json:
        fields = {name: value for name, value in reply.items() if name != "status"}
        print(json.dumps({"running": True} | fields, ensure_ascii=False))
    else:
        _print(reply)
    return 1 if reply["problems"] else 0


def _print(reply: Json) -> None:
    database = reply["database"]
    fields = {"database": f"MongoDB {database['version']}, {database['deployment']}"}
    fields |= {f"server {server['name']}": server["role"] for server in reply["servers"]}
    fields |= {f"daemon {daemon['host']}/{daemon['pid']}": _describe(daemon) for daemon in reply["daemons"]}
    tables.print_fields(fields)
    for problem in reply["problems"]:
        tables.note(problem)


def _describe(daemon: Json) -> str:
    """Return a daemon's version, its index, and how long ago that was in sync with the database."""
    behind = daemon["behind_s"]
    level = "never level yet" if behind is None else f"level {describe_duration(behind)} ago"
    seen = "this one" if daemon["is_this"] else f"seen {describe_duration(daemon['seen_s'])} ago"
    return f"version {daemon['version']}, {daemon['engine']} index {daemon['index_state']}, {level}, {seen}"


COMMANDS = {"cluster": run}
