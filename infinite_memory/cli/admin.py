"""Commands beside `serve` that ask the daemon one thing, or look at the settings."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from infinite_memory.cli.progress import asking
from infinite_memory.cli.reach import ask, home_and_config
from infinite_memory.errors import EmbeddingError, InfiniteMemoryError

Json = dict[str, Any]
FREE_BYTES = 500 * 1024 * 1024  # below this a doctor worries


def call(options: argparse.Namespace) -> int:
    """Send one request and print the reply as one line of JSON; 0 for OK, 1 for ERROR, 2 for a usage fault."""
    text = sys.stdin.read() if options.fields == "-" else options.fields
    try:
        fields = json.loads(text) if text.strip() else {}
    except ValueError as problem:
        print(f"infinite-memory call: the fields are not JSON: {problem}", file=sys.stderr)
        return 2
    if not isinstance(fields, dict):
        print('infinite-memory call: the fields are not a JSON object such as {"query": "tea"}', file=sys.stderr)
        return 2
    reply = ask(options, fields | {"action": options.action})
    print(json.dumps(reply, ensure_ascii=False))
    return _code(reply)


def stats(options: argparse.Namespace) -> int:
    """Print statistics."""
    reply = ask(options, {"action": "get_memory_stats"})
    if options.json or reply["status"] != "OK":
        print(json.dumps(reply.get("stats", reply), ensure_ascii=False))
        return _code(reply)
    _print_tree(reply["stats"])
    return 0


def help_(options: argparse.Namespace) -> int:
    """List the requests and their fields; needs no daemon."""
    import asyncio

    from infinite_memory.app import new_session
    from infinite_memory.contracts.native import NativeContract
    from infinite_memory.engine import Engine

    async def no_engine() -> Engine:
        raise NotImplementedError

    _, config = home_and_config(options)
    contract = NativeContract(no_engine, new_session(config, os.environ))
    asked = {"action": "help"} | ({"command": options.action} if options.action else {})
    reply = asyncio.run(contract.handle(asked))
    if reply["status"] != "OK":
        print(f"infinite-memory help: {reply['error']}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(reply["commands"], ensure_ascii=False))
        return 0
    for command in reply["commands"]:
        print(f"{command['action']}\n    {command['about']}")
        _print_fields(command["fields"], 4)
        print()
    return 0


def optimize(options: argparse.Namespace) -> int:
    """Tidy up, and say what was done."""
    request: Json = {"action": "optimize_memory", "dry_run": options.dry_run}
    reply = asking(options, "optimize")(request | ({"operations": options.operations} if options.operations else {}))
    if options.json:
        print(json.dumps(reply, ensure_ascii=False))
        return _code(reply)
    if reply["status"] != "OK":
        print(f"infinite-memory optimize: {reply['error']}", file=sys.stderr)
        return 1
    for line in reply["operations"]:
        print(line)
    return _code(reply)


def reindex(options: argparse.Namespace) -> int:
    """Build the index anew from the database."""
    reply = asking(options, "reindex")({"action": "reindex"})
    print(f"{reply['count']:,} memories are indexed" if reply["status"] == "OK" else reply["error"])
    return _code(reply)


def config(options: argparse.Namespace) -> int:
    """Show every setting, and who set what is not a default."""
    from infinite_memory.config import known_settings

    home, settings = home_and_config(options)
    known = known_settings()
    rows = [
        {"name": name, "value": value, "set_by": settings.origins.get(name, "default"), "about": known[name].about,
         "variable": known[name].variable, "per_session": known[name].per_session}
        for name, value in settings.values()
    ]  # fmt: skip
    if options.json:
        print(json.dumps({"home": str(home.path), "settings": rows}, ensure_ascii=False))
        return 0
    print(f"home: {home.path}\nfile: {home.config_file}{'' if home.config_file.is_file() else ' (not there)'}\n")
    for row in rows:
        shown = "" if row["value"] is None else json.dumps(row["value"], ensure_ascii=False)
        print(f"{row['name']:<32} {shown:<24} {row['set_by']:<12} {row['about']}")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Check database, model, index, permissions and disk; 0 when all is well, 1 when something is not."""
    findings: list[Json] = []

    def found(name: str, problem: str | None, good: str) -> None:
        findings.append({"check": name, "ok": problem is None, "says": problem or good})

    home, settings = home_and_config(options)
    found("settings", None, f"{len(settings.origins)} differ from the defaults")
    try:
        home.make()
    except OSError as problem:
        found("home", f"{home.path} cannot be used: {problem}", "")
    else:
        found("home", _permissions(home.path), f"{home.path}, for its owner alone")
        free = shutil.disk_usage(home.path).free
        short = f"only {free / 2**20:,.0f} MiB are free" if free < FREE_BYTES else None
        found("disk", short, f"{free / 2**30:,.1f} GiB are free")
        _check_parts(options, found)
    _check_model(settings, found)
    well = all(one["ok"] for one in findings)
    if options.json:
        print(json.dumps({"ok": well, "checks": findings}, ensure_ascii=False))
    else:
        for one in findings:
            print(f"{'ok   ' if one['ok'] else 'WRONG'} {one['check']:<10} {one['says']}")
    return 0 if well else 1


def _check_parts(options: argparse.Namespace, found: Any) -> None:
    """Ask the daemon for its health, and compare the index's count with the database's."""
    try:
        health = ask(options, {"action": "health_check"})
        for name, says in health.get("checks", {}).items():
            found(name, None if says == "ok" else says, "works")
        reply = ask(options, {"action": "get_memory_stats"})
    except InfiniteMemoryError as problem:
        found("daemon", str(problem), "")
        return
    if reply["status"] != "OK":
        found("counts", reply["error"], "")
        return
    one = reply["stats"]
    stored = one["total_memories"] + sum(one["archived_scopes"].values())
    indexed = one["sidecar"]["count"]
    differ = f"the index holds {indexed:,} memories, the database {stored:,}; infinite-memory reindex mends that"
    found("counts", differ if indexed != stored else None, f"{stored:,} memories, all indexed")


def _check_model(settings: Any, found: Any) -> None:
    from infinite_memory.embedding.factory import open_embedder
    from infinite_memory.embedding.fidelity import check_fidelity

    one = settings.embedding
    try:
        embedder = open_embedder(one.model, truncate_dim=one.truncate_dim, precision=one.precision)
        report = check_fidelity(embedder)
    except EmbeddingError as problem:
        found("fidelity", str(problem), "")
        return
    found("fidelity", None if report.is_faithful else str(report), str(report))


def _permissions(home: Path) -> str | None:
    if os.name != "posix":
        return None
    mode = home.stat().st_mode & 0o777
    return f"{home} is open to others (mode {mode:o}); chmod 700 it" if mode & 0o077 else None


def _print_fields(fields: list[Json], indent: int) -> None:
    for field in fields:
        default = f", default {field['default']!r}" if "default" in field else ""
        need = "required" if field["required"] else "optional"
        print(f"{' ' * indent}- {field['name']} ({field.get('type', 'any')}, {need}{default}): {field['about']}")
        _print_fields(field.get("fields", []), indent + 4)


def _print_tree(value: Json, indent: int = 0) -> None:
    for name, one in value.items():
        if isinstance(one, dict):
            print(f"{' ' * indent}{name}:")
            _print_tree(one, indent + 2)
        else:
            print(f"{' ' * indent}{name}: {'none' if one is None else one}")


def _code(reply: Json) -> int:
    return 0 if reply.get("status") == "OK" else 1
