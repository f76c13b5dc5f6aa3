"""Runs every tool with the official inspector (CLI mode), over a pipe and over HTTP.

python -m tests.conformance.inspector FOLDER     where FOLDER holds node_modules with @modelcontextprotocol/inspector
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from infinite_memory.contracts.native import TABLE
from tests.processes import Installation

Json = dict[str, Any]


def main(tools: Path) -> int:
    """Give the exit code: 0 when every tool ran both ways."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Installation(Path(folder) / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}) as made,
    ):
        made.command("daemon", "start")
        about = made.status()["http"]
        token = Path(about["token_file"]).read_text().strip()
        pipe = [sys.executable, "-m", "infinite_memory", "serve"]
        web = [f"{about['url']}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token}"]
        failed = 0
        for way, target in (("stdio", pipe), ("http", web)):
            failed += _run_all(tools, way, target, made)
    print(f"inspector: {failed} calls failed")
    return 1 if failed else 0


def _run_all(tools: Path, way: str, target: list[str], made: Installation) -> int:
    failed = 0
    ran: set[str] = set()

    def inspect(*arguments: str) -> Json:
        command = ["node", str(tools / "node_modules" / ".bin" / "mcp-inspector"), "--cli", *target, *arguments]
        environ = made.environ | {
            "PATH": os.environ["PATH"],
            "MCP_CATALOG_PATH": str(made.home.parent / "catalog.json"),
        }
        done = subprocess.run(
            command, env=environ, cwd=made.home.parent, capture_output=True, text=True, timeout=120, check=False
        )
        try:
            found: Json = json.loads(done.stdout)
        except ValueError:
            found = {"isError": True, "said": (done.stdout + done.stderr)[-500:]}
        return found

    def call(name: str, **fields: Any) -> Json:
        nonlocal failed
        ran.add(name)
        pairs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in fields.items()]
        result = inspect("--method", "tools/call", "--tool-name", name, *(["--tool-arg", *pairs] if pairs else []))
        if result.get("isError", False) or "content" not in result:
            failed += 1
            print(f"FAIL {way} {name}: {json.dumps(result)[:400]}")
            return {}
        print(f"ok   {way} {name}", flush=True)
        reply: Json = result.get("structuredContent") or json.loads(result["content"][0]["text"])
        return reply

    listed = {tool["name"] for tool in inspect("--method", "tools/list").get("tools", [])}
    scope = f"Inspected {way}"
    call("create_memory_scope", scope_name=scope)
    kept = str(call("store_memory", content="The spare key is under the blue pot", scope=scope).get("memory_id"))
    call("store_memories", memories=[{"content": "Tea is at five", "scope": scope}])
    call("retrieve_memory", query="spare key", filter={"scope": scope})
    call("search_by_tag", tag="key")
    call("search_by_scope", scope=scope)
    call("list_memories", filter={"scope": scope})
    call("recall_memory_by_time", time_query="today", scope=scope)
    call("update_memory", memory_id=kept, content="The spare key is with Ada")
    call("get_memory", memory_id=kept)
    call("delete_memory", target={"memory_id": kept})
    call("restore_memory", memory_id=kept)
    call("set_active_scope", scope=scope)
    backup = str(call("backup_memory").get("backup_file"))
    call("verify_backup", file=backup)
    call("restore_backup", file=backup, scope=scope, as_scope=f"{scope} again")
    call("change_memory_scope", scope=scope, description="changed")
    call("merge_memory_scopes", scope=f"{scope} again", into=scope, confirm=True)
    exported = str(call("export_memory", scope=scope).get("path"))
    call("import_memory", path=exported, dry_run=True)
    for name in (
        "list_memory_scopes",
        "get_memory_stats",
        "list_backups",
        "optimize_memory",
        "reindex",
        "health_check",
        "ping",
        "help",
    ):
        call(name)
    names = {command.name for command in TABLE}
    if not listed == names == ran:
        print(f"FAIL {way}: listed {sorted(listed ^ names)}, not run {sorted(names - ran)}")
        failed += 1
    return failed


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
