"""The assistants themselves, where they are installed: each is connected in an empty home and holds two sessions with a stand-in for its
model; in the second its model is given what the first one said."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client_apis import ModelApi
from tests.hook_sessions import Json
from tests.processes import LONG, Installation, need_parts, until

PROMPT, ANSWER = "Which port does the staging server listen on?", "The staging server listens on port 8443."
CLIENT_S = 120.0

pytestmark = pytest.mark.skipif(not LONG, reason="runs programs of others: scripts/test --long")


@pytest.fixture
def api() -> Iterator[ModelApi]:
    with ModelApi(ANSWER).serving() as one:
        yield one


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Installation]:
    need_parts()
    with Installation(tmp_path / "home") as one:
        (tmp_path / "shop").mkdir()
        assert one.command("daemon", "start").returncode == 0
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


def connect(memory: Installation, *options: str) -> None:
    done = memory.command("connect", *options)
    assert done.returncode == 0, done.stderr


def run(memory: Installation, *command: str, **environ: str) -> None:
    """Run a client's command in the project's folder; skips where the client is not installed."""
    program = shutil.which(command[0])
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        [program, *command[1:]], cwd=memory.home.parent / "shop", env=memory.environ | environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=CLIENT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]


def stored(memory: Installation) -> list[Json]:
    reply = memory.call("list_memories", scope="project ~/shop", limit=100)
    return sorted(
        (one for one in reply.get("results", []) if "digest" not in one["tags"]), key=lambda one: one["timestamp"]
    )


def check_sessions(memory: Installation, api: ModelApi, source: str, *command: str, **environ: str) -> None:
    """Hold two sessions: the first is stored, each turn once, and what it said comes beside the second one's prompt."""
    run(memory, *command, **environ)
    until(lambda: len(stored(memory)) >= 2, "the first session is stored")
    said = [(one["speaker"], one["text"], one["source"]) for one in stored(memory)]
    assert said == [("user", PROMPT, source), ("assistant", ANSWER, source)]
    assert not any("recalled by InfiniteMemory" in body for body in api.asked)
    api.asked.clear()
    run(memory, *command, **environ)
    assert any("recalled by InfiniteMemory" in body and f"[answer] {ANSWER}" in body for body in api.asked)
    until(lambda: len(stored(memory)) >= 4, "the second session is stored")
    assert len(stored(memory)) == 4


def test_claude_code_runs_the_plugin(memory: Installation, api: ModelApi) -> None:
    connect(memory, "claude-code", "--plugin")
    folder = str(memory.home.parent / ".claude" / "infinite-memory")
    run(memory, "claude", "plugin", "validate", folder)
    run(memory, "claude", "plugin", "marketplace", "add", folder)
    run(memory, "claude", "plugin", "install", "infinite-memory@infinite-memory")
    check_sessions(
        memory, api, "claude-code", "claude", "-p", PROMPT, "--model", "claude-sonnet-4-5",
        ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="none", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1",
    )  # fmt: skip


def test_codex_runs_the_hooks(memory: Installation, api: ModelApi) -> None:
    connect(memory, "codex")
    file = memory.home.parent / ".codex" / "config.toml"
    provider = (
        f'[model_providers.test]\nname = "test"\nbase_url = "{api.url}/v1"\nwire_api = "responses"\nenv_key = "KEY"\n'
    )
    file.write_text(f'model = "stand-in"\nmodel_provider = "test"\n{file.read_text()}\n{provider}')
    check_sessions(
        memory, api, "codex", "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", PROMPT, KEY="none",
    )  # fmt: skip


def test_gemini_cli_runs_the_hooks(memory: Installation, api: ModelApi) -> None:
    connect(memory, "gemini")
    file = memory.home.parent / ".gemini" / "settings.json"
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"security": {"auth": {"selectedType": "gemini-api-key"}}})
    )
    check_sessions(
        memory, api, "gemini", "gemini", "--skip-trust", "-m", "gemini-2.5-flash", "-p", PROMPT,
        GEMINI_API_KEY="none", GOOGLE_GEMINI_BASE_URL=api.url,
    )  # fmt: skip
