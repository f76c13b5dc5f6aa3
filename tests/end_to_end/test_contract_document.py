"""The native contract's document, example by example, over a real `serve`; then the lines that a pipe may carry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes import Client, Installation

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ID = re.compile(r"[0-9a-f]{24}")


@pytest.fixture
def client(shared: Installation) -> Iterator[Client]:
    """A client of the daemon that this file shares."""
    one = shared.serve()
    yield one
    assert one.close() == 0
    assert one.errors() == ""


def shape(reply: dict[str, Any]) -> dict[str, Any]:
    """Put words in the place of what differs from run to run."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: of(one) for key, one in value.items()}
        if isinstance(value, list):
            return [of(one) for one in value]
        if isinstance(value, str):
            return "<id>" if ID.fullmatch(value) else "<instant>" if INSTANT.fullmatch(value) else value
        return value

    shaped: dict[str, Any] = of(reply)
    return shaped


def test_the_documents_examples_are_answered_reply_for_reply(installation: Installation) -> None:
    client = installation.serve()
    blue = {"scope": "Personal", "tags": ["preferences", "colors"]}
    stored = client.ask("store_memory", content="My favorite color is blue", metadata=blue)
    assert shape(stored) == {"status": "OK", "memory_id": "<id>", "scope": "Personal", "outcome": "stored"}

    found = client.ask("retrieve_memory", query="favorite color", filter={"scope": "Personal"}, top_k=3)
    [hit] = found["results"]
    assert 0.5 < hit.pop("confidence") <= 1
    assert hit.pop("when").startswith("today, ")
    assert shape(found) == {
        "status": "OK",
        "results": [
            {
                "text": "My favorite color is blue",
                "source": "conversation",
                "timestamp": "<instant>",
                "scope": "Personal",
                "tags": ["preferences", "colors"],
                "memory_id": "<id>",
            }
        ],
        "scopes_searched": ["Personal"],
    }
    assert hit["memory_id"] == stored["memory_id"]

    for text, tags, at in (
        (
            "Project Alpha team meeting is every Thursday at 2pm",
            ["project-alpha", "meetings"],
            "2023-07-10T14:20:15.456Z",
        ),
        ("Project Alpha deadline is June 30th", ["project-alpha", "deadlines"], "2023-07-15T09:45:30.123Z"),
    ):
        metadata = {"scope": "Work", "tags": tags, "timestamp": at}
        assert client.ask("store_memory", content=text, metadata=metadata)["status"] == "OK"
    by_tag = client.ask("search_by_tag", tag="project-alpha")
    assert [(one["text"], one["timestamp"], one["scope"], one["tags"]) for one in by_tag["results"]] == [
        ("Project Alpha deadline is June 30th", "2023-07-15T09:45:30.123Z", "Work", ["project-alpha", "deadlines"]),
        ("Project Alpha team meeting is every Thursday at 2pm", "2023-07-10T14:20:15.456Z", "Work",
         ["project-alpha", "meetings"]),
    ]  # fmt: skip
    nearest = client.ask("search_by_tag", tag="project-alpha", query="when do we meet")["results"][0]
    assert nearest["text"].startswith("Project Alpha team meeting")

    by_scope = client.ask("search_by_scope", scope="Work")
    assert [one["text"] for one in by_scope["results"]] == [one["text"] for one in by_tag["results"]]
    assert client.ask("search_by_scope", scope="Work", query="deadline")["results"][0]["text"].endswith("June 30th")

    by_time = client.ask("recall_memory_by_time", range={"from": "2023-07-10", "to": "2023-07-10"}, scope="Work")
    assert [one["timestamp"] for one in by_time["results"]] == ["2023-07-10T14:20:15.456Z"]
    assert {"from", "to"} <= by_time["time_frame"].keys()
    in_words = client.ask("recall_memory_by_time", time_query="yesterday", now="2023-07-16T12:00:00Z", scope="Work")
    assert [one["text"] for one in in_words["results"]] == ["Project Alpha deadline is June 30th"]

    made = client.ask("create_memory_scope", scope_name="Travel", description="Places to go")
    assert shape(made) == {"status": "OK", "scope_id": "<id>", "scope_name": "Travel", "outcome": "created"}
    again = client.ask("create_memory_scope", scope_name="travel")
    assert (again["status"], again["error_code"]) == ("ERROR", "ALREADY_EXISTS")
    scopes = client.ask("list_memory_scopes")["scopes"]
    assert [one["scope_name"] for one in scopes] == ["Global", "Personal", "Work", "Travel"]
    assert all(INSTANT.fullmatch(one["created_at"]) for one in scopes)
    assert scopes[3]["description"] == "Places to go"

    stats = client.ask("get_memory_stats")["stats"]
    assert stats["total_memories"] == 3
    assert stats["scopes"] == {"Global": 0, "Personal": 1, "Work": 2, "Travel": 0}
    assert stats["last_backup"] is None
    assert {"conversation_count", "db_size_mb"} <= stats.keys()

    gone = client.ask("delete_memory", target={"memory_id": stored["memory_id"]}, forget_mode="soft")
    assert gone["deleted_count"] == 1
    assert client.ask("search_by_scope", scope="Personal")["results"] == []
    nothing = client.ask("delete_memory", target={"memory_id": "0" * 24})
    assert (nothing["status"], nothing["deleted_count"]) == ("OK", 0)
    assert nothing["note"]

    assert client.ask("optimize_memory")["operations"]
    backup = client.ask("backup_memory")
    assert re.fullmatch(r"backup_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ.*\.dump", backup["backup_file"])

    wrong = client.ask("search_by_scope", scope="Wrok")
    assert (wrong["status"], wrong["error_code"]) == ("ERROR", "NOT_FOUND")
    assert "Work" in wrong["error"]


def test_the_session_of_an_evening_survives_to_the_next_day(installation: Installation) -> None:
    evening = installation.serve()
    metadata = {"scope": "Personal", "tags": ["preferences"]}
    assert evening.ask("store_memory", content="My favorite color is blue", metadata=metadata)["status"] == "OK"
    assert evening.close() == 0
    assert installation.command("daemon", "stop").returncode == 0
    assert installation.processes() == []
    morning = installation.serve()
    reply = morning.ask("retrieve_memory", query="which colour do I like best?", filter={"scope": "Personal"})
    assert [one["text"] for one in reply["results"]] == ["My favorite color is blue"]


def test_lines_of_every_kind_get_their_replies_in_order(client: Client) -> None:
    client.send_bytes(
        b'\xef\xbb\xbf{"action": "ping", "request_id": 1}\r\n'
        b"\r\n   \n"
        b"nonsense\n"
        b'{"action": "ping", "request_id": "\xff"}\n'
        b'{"action": "store_memory", "content": "a\\u0000b\\u001f caf\\u00e9 \\ud83d\\ude00", "request_id": 2}\n'
        b'{"action": "store_memory", "content": "\\ud83d"}\n'
        b"[[[[[]]]]]\n"
        b'{"action": "ping", "request_id": 3}\n'
        + b'{"action": "store_memory", "content": "' + b"x" * (17 << 20) + b'"}\n'
        + b'{"action": "ping", "request_id": 4}'
    )  # fmt: skip
    client.stdin.close()
    replies = client.rest()
    assert [(reply["status"], reply.get("request_id")) for reply in replies] == [
        ("OK", 1), ("ERROR", None), ("ERROR", None), ("OK", 2), ("ERROR", None), ("ERROR", None), ("OK", 3),
        ("ERROR", None), ("OK", 4),
    ]  # fmt: skip
    assert "more than the limit of 16,777,216" in replies[7]["error"]


def test_a_line_above_what_the_client_keeps_is_refused_by_the_daemon_and_the_session_goes_on(client: Client) -> None:
    client.send_bytes(
        b'{"action": "ping", "request_id": 1}\n' + b"x" * (40 << 20) + b"\n" + b'{"action": "ping", "request_id": 2}\n'
    )
    assert client.reply()["request_id"] == 1
    assert client.reply()["error_code"] == "INVALID_REQUEST"
    assert client.reply()["request_id"] == 2


def test_text_comes_back_exactly_as_it_was_sent(client: Client) -> None:
    text = " \t a\0b\x1f\u2028 é e\u0301 😀 \\ \" ' {} \r\n end\n"
    kept = client.ask("store_memory", content=text)
    assert client.ask("get_memory", memory_id=kept["memory_id"])["memory"]["text"] == text


def test_scopes_differ_at_two_places_is_refused(client: Client) -> None:
    reply = client.ask("store_memory", content="a", scope="A", metadata={"scope": "B"})
    assert reply["error"] == "scope: 'A' here and 'B' in metadata.scope differ; give it once"
    reply = client.ask("store_memory", content="a", tags=["A"], metadata={"tags": ["B"]})
    assert "differ; give it once" in reply["error"]
