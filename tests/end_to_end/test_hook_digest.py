"""Digests as they come about: at a session's end or the next start, once, recalled at a start, and gone with what they quote."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hook_sessions import HookSession, digests, new_session, scope_of, stored, wait_for
from tests.processes import LONG, Installation, need_parts, until

Json = dict[str, Any]

TALK = (
    ("Which database should the shop use?", "PostgreSQL would fit the shop. I changed src/shop/db.py."),
    ("Good, we will use PostgreSQL for the shop.", "The cache of the shop is not yet set up."),
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon is warm, and where pruning leaves one memory of a scope."""
    need_parts()
    environ = {"INFINITE_MEMORY_RETENTION__MAX_MEMORIES": "1"}
    with Installation(tmp_path_factory.mktemp("digest") / "home", environ, is_stopped=LONG) as one:
        assert one.command("daemon", "start").returncode == 0
        assert one.call("store_memory", content="warm", scope="Other")["status"] == "OK"
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


def held(memory: Installation, name: str) -> HookSession:
    """Hold a session of a project of that name, and end it."""
    session = new_session(memory, name)
    for prompt, answer in TALK:
        session.say(prompt, answer)
    session.run(memory, "Stop")
    session.run(memory, "SessionEnd")
    wait_for(memory, session, 4)
    until(lambda: digests(memory, session), "the digest is made")
    return session


def context_of(output: str) -> str:
    return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""


def test_a_session_that_ends_has_one_digest_however_often_it_ends(memory: Installation) -> None:
    session = held(memory, "ends")
    [digest] = digests(memory, session)
    assert "About: Which database should the shop use?" in digest["text"]
    assert "Decided: Good, we will use PostgreSQL for the shop." in digest["text"]
    assert "Open: The cache of the shop is not yet set up." in digest["text"]
    assert "Files: src/shop/db.py" in digest["text"]
    assert digest["conversation_id"] == session.session_id
    for _ in range(2):
        session.run(memory, "SessionEnd")
        wait_for(memory, session, 4)
    assert digests(memory, session) == [digest]


def test_a_session_that_goes_on_has_its_digest_made_again(memory: Installation) -> None:
    session = held(memory, "goes-on")
    session.say("Let us also decide on the cache. We will use Redis for the cache of the shop.", "Redis is set up now.")
    session.run(memory, "SessionEnd", session_id=session.session_id)
    until(lambda: "Redis" in "".join(one["text"] for one in digests(memory, session)), "the digest is made again")
    until(lambda: len(digests(memory, session)) == 1, "the digest before is gone")


def test_a_session_that_was_killed_has_its_digest_at_a_later_start(memory: Installation) -> None:
    session = new_session(memory, "killed")
    for prompt, answer in TALK:
        session.say(prompt, answer)
    session.run(memory, "Stop")
    wait_for(memory, session, 4)
    assert digests(memory, session) == []
    long_ago = time.time() - 3600
    os.utime(session.transcript, (long_ago, long_ago))
    new_session(memory, "killed-other").run(memory, "SessionStart")
    until(lambda: len(digests(memory, session)) == 1, "the digest is made")


def test_a_start_shows_the_digest_also_when_the_turns_are_pruned(memory: Installation) -> None:
    session = held(memory, "pruned")
    text = context_of(new_session(memory, "pruned").run(memory, "SessionStart"))
    assert "Decided: Good, we will use PostgreSQL for the shop." in text
    assert "asked:" not in text
    reply = memory.call("optimize_memory", operations=["prune"])
    assert reply["status"] == "OK", reply
    until(lambda: len(stored(memory, session)) == 1, "the turns are pruned")
    [digest] = digests(memory, session)
    text = context_of(new_session(memory, "pruned").run(memory, "SessionStart"))
    assert "Decided: Good, we will use PostgreSQL for the shop." in text
    at = dt.datetime.now(dt.UTC)
    session.write(session.entry("user", "Where does the shop keep its pictures?", at=at))
    answer = [{"type": "text", "text": "The pictures of the shop are kept in a bucket."}]
    session.write(session.entry("assistant", answer, at=at + dt.timedelta(seconds=1)))
    session.run(memory, "SessionEnd")
    until(lambda: len(digests(memory, session)) == 2, "what was said since has a digest of its own")
    assert digest in digests(memory, session)


def test_a_prompt_brings_a_turn_itself_and_not_the_digest_that_quotes_it(memory: Installation) -> None:
    held(memory, "itself")
    prompt = "Which database should the shop use?"
    text = context_of(new_session(memory, "itself").run(memory, "UserPromptSubmit", prompt=prompt))
    shown = [line for line in text.splitlines() if line.startswith("- [") and "[session," not in line]
    assert len([line for line in shown if "[answer] PostgreSQL would fit the shop" in line]) <= 1
    assert not any("About:" in line for line in shown)


def test_a_digest_does_not_outlive_what_was_forgotten(memory: Installation) -> None:
    session = held(memory, "forgotten")
    [turn] = [one for one in stored(memory, session) if one["text"].startswith("Good, we will use")]
    memory.call("delete_memory", target={"memory_id": turn["memory_id"]}, forget_mode="soft")
    assert all("Good, we will use" not in one["text"] for one in digests(memory, session))  # from the reply on
    until(lambda: digests(memory, session), "the digest is made again of what is left, with no session beginning")
    assert "About: Which database should the shop use?" in digests(memory, session)[0]["text"]
    assert "Good, we will use" not in context_of(new_session(memory, "forgotten").run(memory, "SessionStart"))
    assert len(digests(memory, session)) == 1


def test_a_digest_comes_back_to_an_earlier_text_when_what_was_said_since_is_forgotten(memory: Installation) -> None:
    session = held(memory, "back")
    [first] = digests(memory, session)
    session.say(
        "Let us decide on the cache as well: we will use Redis for the shop.", "Redis is set up for the shop now."
    )
    session.run(memory, "SessionEnd")
    until(lambda: [one["text"] for one in digests(memory, session)] != [first["text"]], "the digest is made again")
    until(lambda: len(digests(memory, session)) == 1, "the digest before is gone")
    for turn in stored(memory, session)[4:]:
        memory.call("delete_memory", target={"memory_id": turn["memory_id"]}, forget_mode="hard")
    until(lambda: [one["text"] for one in digests(memory, session)] == [first["text"]], "the first text is back")


def test_a_digest_says_no_more_what_was_edited_out_of_a_turn(memory: Installation) -> None:
    session = held(memory, "edited")
    [turn] = [one for one in stored(memory, session) if one["text"].startswith("Good, we will use")]
    text = "Good, we will use MariaDB for the shop."
    assert memory.call("update_memory", memory_id=turn["memory_id"], content=text)["status"] == "OK"
    assert all("PostgreSQL for the shop." not in one["text"] for one in digests(memory, session))
    until(lambda: [f"Decided: {text}" in one["text"] for one in digests(memory, session)] == [True], "it is made again")


def test_a_memory_of_somebody_elses_that_is_called_a_digest_is_left_alone(memory: Installation) -> None:
    session = new_session(memory, "foreign")
    for content, more in (
        ("my own notes", {"conversation_id": session.session_id}),
        (
            "the digest of the week",
            {"tags": ["digest"], "sources": ["https://example.com/1", "0123456789abcdef01234567"]},
        ),
        ("what was said today", {"tags": ["digest"], "sources": [], "conversation_id": session.session_id}),
    ):
        metadata = {"scope": scope_of(session), "type": "digest"} | more
        assert memory.call("store_memory", content=content, metadata=metadata)["status"] == "OK"
    for prompt, answer in TALK:
        session.say(prompt, answer)
    session.run(memory, "SessionEnd")
    until(lambda: digests(memory, session), "the digest is made")
    new_session(memory, "foreign").run(memory, "SessionStart")
    wait_for(memory, session, 4)
    listed = memory.call("list_memories", filter={"scope": scope_of(session)}, limit=100)["results"]
    assert {"my own notes", "the digest of the week", "what was said today"} <= {one["text"] for one in listed}


def test_a_digest_that_was_forgotten_does_not_come_back(memory: Installation) -> None:
    session = held(memory, "gone")
    [digest] = digests(memory, session)
    assert memory.command("forget", digest["memory_id"], "--for-good", "--yes").returncode == 0
    session.run(memory, "SessionEnd")
    wait_for(memory, session, 4)
    assert digests(memory, session) == []


def test_digests_can_be_turned_off(memory: Installation) -> None:
    session = new_session(memory, "off")
    session.say(*TALK[0])
    session.say(*TALK[1])
    memory.environ["INFINITE_MEMORY_CAPTURE__DIGESTS"] = "false"
    try:
        session.run(memory, "SessionEnd")
    finally:
        del memory.environ["INFINITE_MEMORY_CAPTURE__DIGESTS"]
    wait_for(memory, session, 4)
    assert digests(memory, session) == []
