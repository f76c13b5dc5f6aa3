"""A digest that a configured model writes: after a session's end, over what is stored, and gone with what the model was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hook_sessions import HookSession, digests, new_session, stored, wait_for
from tests.model_server import ModelServer, model_server, openai
from tests.processes import LONG, Installation, need_parts, until

Json = dict[str, Any]

WRITTEN = "About: The shop's database.\nDecided: PostgreSQL."
TALK = (
    ("Which database should the shop use? My key is AKIAIOSFODNN7EXAMPLE.", "PostgreSQL would fit the shop."),
    ("Good, we will use PostgreSQL for the shop.", "The cache of the shop is not yet set up."),
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as one:
        yield one


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[Installation]:
    """A home whose daemon is warm, and whose settings name the model."""
    need_parts()
    environ = {"INFINITE_MEMORY_CAPTURE__DIGEST_BY_MODEL": "true"}
    with Installation(tmp_path_factory.mktemp("model-digest") / "home", environ, is_stopped=LONG) as one:
        one.home.mkdir(mode=0o700, exist_ok=True)
        settings = f'[model]\napi = "openai"\nname = "small"\nurl = "{server.url}/v1"\n'
        (one.home / "config.toml").write_text(settings)
        assert one.command("daemon", "start").returncode == 0
        assert one.call("store_memory", content="warm", scope="Other")["status"] == "OK"
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


def hold(memory: Installation, name: str) -> HookSession:
    session = new_session(memory, name)
    for prompt, answer in TALK:
        session.say(prompt, answer)
    session.run(memory, "SessionEnd")
    wait_for(memory, session, 4)
    return session


def event(memory: Installation) -> Json:
    file: Path = memory.home / "hooks" / "events" / "claude-code.digest-by-model.json"
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def test_the_model_writes_it_once_and_it_goes_with_any_turn_it_was_shown(
    memory: Installation, server: ModelServer
) -> None:
    server.answers.append(openai(WRITTEN))
    session = hold(memory, "written")
    until(lambda: [one["text"] for one in digests(memory, session)] == [WRITTEN], "the model's digest is there")
    [asked] = server.asked
    shown = json.dumps(asked[2])
    assert "Good, we will use PostgreSQL" in shown
    assert "AKIAIOSFODNN7EXAMPLE" not in shown
    session.run(memory, "SessionEnd")
    until(lambda: not list((memory.home / "hooks" / "spool").glob("*.json")), "the event was read")
    session.run(memory, "SessionStart")
    assert [one["text"] for one in digests(memory, session)] == [WRITTEN]
    assert len(server.asked) == 1
    server.answers.append(openai("About: The database."))
    turn = stored(memory, session)[3]
    assert memory.call("delete_memory", target={"memory_id": turn["memory_id"]}, forget_mode="hard")["status"] == "OK"
    assert WRITTEN not in [one["text"] for one in digests(memory, session)]
    until(lambda: [one["text"] for one in digests(memory, session)] == ["About: The database."], "it is written again")


def test_where_the_model_fails_the_digest_of_sentences_stays(memory: Installation, server: ModelServer) -> None:
    server.answers.clear()  # each request is answered by 500
    session = hold(memory, "failing")
    until(lambda: event(memory).get("failure"), "the failure is noted")
    [digest] = digests(memory, session)
    assert "About: Which database should the shop use?" in digest["text"]
    told = memory.command("doctor").stdout
    assert "digest-by-model: last" in told
    assert "failed:" in told
