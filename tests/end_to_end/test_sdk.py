"""The Python SDK over a real daemon, by its socket and by its URL; its documentation's examples, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import re
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory import ApiError, AsyncMemory, Memory
from infinite_memory.sdk.errors import DeniedError, InvalidError, MissingError, UnavailableError
from tests.doc_blocks import blocks
from tests.processes import LONG, ROOT, Installation, need_parts, until

DOCUMENTS = tuple(ROOT / "docs" / name for name in ("start/python.md", "sdk.md", "guides/langgraph.md"))
README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = [
    block.text
    for document in DOCUMENTS
    for block in blocks(document)
    if block.language == "python" and block.not_run is None
]
[README_EXAMPLE] = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon also speaks HTTP."""
    need_parts()
    home = tmp_path_factory.mktemp("sdk") / "home"
    with Installation(home, {"INFINITE_MEMORY_HTTP__PORT": "0"}, is_stopped=LONG) as one:
        assert one.command("daemon", "start").returncode == 0
        until(lambda: "url" in one.status().get("http", {}), "HTTP is on")
        yield one


@pytest.fixture(params=["socket", "url"])
def memory(request: pytest.FixtureRequest, served: Installation) -> Iterator[Memory]:
    """The same memory, by either way."""
    if request.param == "socket":
        made = Memory(home=served.home)
    else:
        http = served.status()["http"]
        made = Memory(url=http["url"], token=served.home.joinpath("http.token").read_text().strip())
    with made:
        yield made


def run(installation: Installation, code: str) -> str:
    scripts = str(Path(sys.executable).parent)  # as in an environment that was activated
    environ = installation.environ | {"PATH": os.pathsep.join((scripts, installation.environ.get("PATH", os.defpath)))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.splitlines()[-1][:40])
def test_each_example_of_the_documentation_runs_beside_the_others_and_twice(served: Installation, code: str) -> None:
    run(served, code)
    run(served, code)


def test_the_example_of_the_readme_runs(served: Installation) -> None:
    assert "blue" in run(served, README_EXAMPLE)


def test_the_example_of_the_agentmem_document_runs(served: Installation) -> None:
    document = """\
from infinite_memory import Memory

memory = Memory()
memory.add("User prefers dark mode", user_id="user_123")
results = memory.search("user preferences", user_id="user_123")
"""
    assert run(served, f"{document}print(results[0].content)") == "User prefers dark mode\n"


def test_a_history_of_many_versions_is_read_page_by_page(memory: Memory) -> None:
    kept = memory.add("version 1", scope=f"Pages {uuid.uuid4().hex}")
    for number in range(2, 106):
        memory.update(kept.memory_id, f"version {number}")
    latest = memory.history(kept.memory_id)
    assert (latest.memory.content, latest.older) == ("version 105", 4)
    assert [one.content for one in latest.revisions] == [f"version {number}" for number in range(5, 105)]
    first = latest.revisions[0].revision
    oldest = memory.history(kept.memory_id, before_revision=first)
    assert [one.content for one in oldest.revisions] == [f"version {number}" for number in range(1, 5)]
    assert oldest.older == 0
    with pytest.raises(InvalidError, match="before_revision"):
        memory.history(kept.memory_id, before_revision=0)


def test_a_memory_lives_from_its_first_word_to_its_last(memory: Memory) -> None:
    name = f"Life {uuid.uuid4().hex}"
    kept = memory.add("The key is under the pot", scope=name, tags=["keys"], metadata={"title": "Key", "room": 3})
    assert (kept.outcome, kept.title, kept.metadata, kept.tags) == ("stored", "Key", {"room": 3}, ("keys",))
    assert memory.get(kept.memory_id).content == "The key is under the pot"
    assert memory.search("where is the key?", scope=name)[0].memory_id == kept.memory_id
    assert memory.update(kept.memory_id, "The key is in the drawer").outcome == "updated"
    history = memory.history(kept.memory_id)
    assert (history.memory.content, [one.content for one in history.revisions]) == (
        "The key is in the drawer", ["The key is under the pot"],
    )  # fmt: skip
    today = memory.recall("today", scope=name)
    assert [one.memory_id for one in today] == [kept.memory_id]
    assert today.time_frame is not None
    assert memory.delete(kept.memory_id).memory_ids == (kept.memory_id,)
    assert len(memory.list_memories(scope=name)) == 0
    assert memory.restore(kept.memory_id).content == "The key is in the drawer"
    memory.add("something else", scope=f"{name} elsewhere")
    moved = memory.move(kept.memory_id, f"{name} elsewhere")
    assert (moved.outcome, moved.former_scope, moved.scope) == ("moved", name, f"{name} elsewhere")
    assert memory.move(kept.memory_id, f"{name} elsewhere").outcome == "unchanged"
    with pytest.raises(MissingError):
        memory.move(kept.memory_id, f"{name} nowhere")
    assert memory.get(kept.memory_id).content == "The key is in the drawer"
    assert memory.delete(kept.memory_id, hard=True).hard
    with pytest.raises(MissingError) as caught:
        memory.get(kept.memory_id)
    assert caught.value.code == "MEMORY_NOT_FOUND"
    assert name in [one.scope_name for one in memory.scopes()]


def test_a_user_has_agents_and_a_chat_and_is_alone(memory: Memory) -> None:
    ada, bob = f"ada {uuid.uuid4().hex}", f"bob {uuid.uuid4().hex}"
    memory.add("Her dog is called Bolt", user_id=ada, timestamp=dt.date(2026, 3, 1))
    memory.add("Writes Rust", user_id=ada, agent_id="coder", memory_type="Factual")
    assert memory.add("writes rust", user_id=ada, agent_id="coder").outcome == "duplicate"
    assert [one.content for one in memory.search("language", user_id=ada, agent_id="coder")] == ["Writes Rust"]
    assert memory.recall("in March", user_id=ada, now="2026-11-28")[0].content == "Her dog is called Bolt"
    assert [one.content for one in memory.search("skill", user_id=ada, memory_type="Factual")] == ["Writes Rust"]
    assert len(memory.search("dog", user_id=bob)) == 0
    answer = memory.chat("What is the dog called?", user_id=ada)
    assert (answer.generated, "Bolt" in answer.response, len(answer.memory_ids) >= 1) == (False, True, True)
    would = memory.delete_all(user_id=ada, dry_run=True)
    assert (would.dry_run, len(would.memory_ids)) == (True, 2)
    assert set(memory.delete_all(user_id=ada).memory_ids) == set(would.memory_ids)


def test_pages_come_one_after_the_other(memory: Memory) -> None:
    name = f"Pages {uuid.uuid4().hex}"
    for number in range(7):
        memory.add(f"entry {number}", scope=name)
    first = memory.list_memories(scope=name, limit=3)
    assert (len(first), first.total) == (3, 7)
    assert first.next_cursor
    assert [one.content for one in memory.iterate(scope=name, page=3)] == [f"entry {n}" for n in reversed(range(7))]
    memory.add("the odd one", scope=name, metadata={"type": "odd"})
    assert [one.content for one in memory.iterate(scope=name, page=3, filter={"type": "odd"})] == ["the odd one"]
    assert all(one.when for one in first)


def test_what_is_wrong_is_named(memory: Memory) -> None:
    for call, field in (
        (lambda: memory.add(" "), "content"),
        (lambda: memory.search("x", limit=0), "limit"),
        (lambda: memory.recall("no time in here"), "when"),
        (lambda: memory.recall(since="no time"), "since"),
        (lambda: memory.search("x", until="2026-13-01"), "until"),
        (lambda: memory.search("x", since="2026-02-01", until="2026-01-01"), "since"),
        (lambda: memory.add("x", timestamp="soon"), "timestamp"),
        (lambda: memory.search("x", filter={"min_importance": 11}), "filter.min_importance"),
        (lambda: memory.list_memories(filter={"min_importance": 11}), "filter.min_importance"),
        (lambda: memory.add("x", user_id="u", memory_type="Odd"), "memory_type"),
        (lambda: memory.add("x", tags=["a" * 201]), "tags[0]"),
    ):
        with pytest.raises(InvalidError) as caught:
            call()
        assert caught.value.field == field
    with pytest.raises(MissingError) as missing:
        memory.search("x", scope="Nowhere at all")
    assert missing.value.code == "SCOPE_NOT_FOUND"


def test_what_a_filter_narrows_by(memory: Memory) -> None:
    name, ada = f"Narrow {uuid.uuid4().hex}", f"narrow {uuid.uuid4().hex}"
    memory.add("The pump is loud", scope=name, metadata={"speaker": "Sam", "room": 3}, timestamp="2026-03-02")
    memory.add("The pump is quiet", scope=name, metadata={"speaker": "Ada"}, timestamp="2026-08-02")
    spring = {"time_range": {"from": "2026-03-01", "to": "2026-03-31"}}
    for narrowed in ({"speaker": "Sam"}, spring, {"time_query": "in March 2026"}):
        for found in (
            memory.search("pump", scope=name, filter=narrowed),
            memory.list_memories(scope=name, filter=narrowed),
        ):
            assert ([one.content for one in found], found.warnings) == (["The pump is loud"], ())
    memory.add("Asked for tea", user_id=ada, session_id="monday")
    memory.add("Asked for coffee", user_id=ada, session_id="friday")
    assert [one.content for one in memory.search("drink", user_id=ada, session_id="monday")] == ["Asked for tea"]
    assert [one.content for one in memory.list_memories(user_id=ada, session_id="friday")] == ["Asked for coffee"]


def test_many_threads_share_a_memory(memory: Memory) -> None:
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            kept = memory.add(f"of thread {number}", scope="Threads")
            assert memory.get(kept.memory_id).content == f"of thread {number}"
        except Exception as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


async def test_asyncio_has_the_same_methods(served: Installation) -> None:
    async def main() -> list[str]:
        async with AsyncMemory("gather", home=served.home) as memory:
            await asyncio.gather(*(memory.add(f"Likes tea number {number}") for number in range(5)))
            kept = (await memory.search("tea"))[0]
            await memory.update(kept.memory_id, "Likes coffee")
            assert (await memory.history(kept.memory_id)).revisions
            await memory.delete(kept.memory_id)
            with pytest.raises(ApiError):
                await memory.get(kept.memory_id)
            assert {one.content async for one in memory.iterate(page=3)} == {
                f"Likes tea number {number}" for number in range(5)
            } - {kept.content}
            with pytest.raises(ApiError):
                [one async for one in memory.iterate(page=0)]
            return [one.content for one in await memory.recall("today")]

    assert len(await main()) == 4


def test_a_wrong_token_is_denied(served: Installation) -> None:
    with pytest.raises(DeniedError) as caught:
        Memory(url=served.status()["http"]["url"], token="im_wrong").search("x")
    assert caught.value.code == "AUTHENTICATION_FAILED"


def test_a_token_of_one_user_needs_no_user(served: Installation) -> None:
    made = served.command("tokens", "create", "--name", "sdk", "--user", "dora", "--json")
    token = json.loads(made.stdout)["token"]
    memory = Memory(url=served.status()["http"]["url"], token=token)
    assert memory.add("Plays the harp").user_id == "dora"
    assert [one.content for one in memory.search("music")] == ["Plays the harp"]
    with pytest.raises(DeniedError):
        memory.search("music", user_id="somebody else")


def test_the_daemon_is_started_and_met_again_after_it_went(installation: Installation) -> None:
    code = (
        "import sys\nfrom infinite_memory import Memory\nmemory = Memory()\n"
        "memory.add('kept over a restart')\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "print(memory.search('restart')[0].content)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env=installation.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        first = installation.daemon_pid()
        installation.command("daemon", "stop")
        until(lambda: installation.daemon_pid() is None, "the daemon is gone")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "kept over a restart\n"
    assert installation.daemon_pid() not in (None, first)


def test_a_users_memory_handle_reaches_what_it_put_into_a_scope(served: Installation) -> None:
    with Memory("ada", home=served.home) as memory:
        kept = memory.add("The cellar key hangs behind the clock", scope="House")
        assert memory.get(kept.memory_id, scope="House").content == kept.content
        memory.update(kept.memory_id, "The cellar key is gone", scope="House")
        assert [revision.content for revision in memory.history(kept.memory_id, scope="House").revisions] == [
            kept.content
        ]
        with pytest.raises(MissingError):
            memory.get(kept.memory_id)
        assert memory.delete(kept.memory_id, scope="House").count == 1
        assert memory.restore(kept.memory_id, scope="House").memory_id == kept.memory_id
        mine = memory.add("I drink tea")
        assert memory.get(mine.memory_id).content == "I drink tea"


def test_what_would_widen_a_search_is_refused(served: Installation) -> None:
    with Memory("ada", home=served.home) as memory:
        for beside in ({"tags": ["work"]}, {"when": "last week"}, {"filter": {"source": "mail"}}):
            with pytest.raises(InvalidError) as raised:
                memory.search("tea", agent_id="cook", **beside)
            assert raised.value.field == next(iter(beside))


def test_a_dry_run_counts_all_and_deletes_none(served: Installation) -> None:
    with Memory(home=served.home) as memory:
        for number in range(3):
            memory.add(f"crate {number}", scope="Attic", tags=["box"])
        would = memory.delete_all(scope="Attic", tag="box", dry_run=True)
        assert (would.count, would.dry_run) == (3, True)
        assert memory.delete_all(scope="Attic", tag="box").count == 3


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
def test_an_answer_that_is_none_of_the_memorys_is_an_error_of_the_sdk(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):  # the test is over, or the other side has gone
                for _ in range(2):  # what changes nothing is asked a second time
                    link, _ = server.accept()
                    with link:
                        link.recv(65536)
                        link.sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        with (
            Memory(url=f"http://127.0.0.1:{server.getsockname()[1]}", token="im_x") as memory,
            pytest.raises(UnavailableError),
        ):
            memory.get("a" * 24)


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "ftp://127.0.0.1", "http://[::1", "127.0.0.1:80"])
def test_a_url_that_is_none_is_named(url: str) -> None:
    with pytest.raises(InvalidError) as raised:
        Memory(url=url)
    assert raised.value.field == "url"


def test_tags_may_be_a_text_with_commas(memory: Memory) -> None:
    kept = memory.add("The kite is red", scope="Kites", tags="red, toys")
    assert kept.tags == ("red", "toys")
    assert [one.memory_id for one in memory.search("kite", scope="Kites", tags="toys")] == [kept.memory_id]
    assert memory.update(kept.memory_id, tags="blue").tags == ("blue",)


def test_a_fork_has_connections_and_threads_of_its_own(served: Installation) -> None:
    code = """
import asyncio, os, sys
from infinite_memory import AsyncMemory
memory = AsyncMemory(scope="Forked", timeout_s=30)
asyncio.run(memory.add("of the parent"))
memory.sync._link._lock.acquire()  # as another thread may, at that moment
child = os.fork()
if not child:
    asyncio.run(memory.add("of the child"))
    os._exit(0)
memory.sync._link._lock.release()
assert os.waitpid(child, 0)[1] == 0
print(len(asyncio.run(memory.list_memories())))
"""
    assert run(served, code) == "2\n"


@pytest.mark.parametrize("token", ["im_a\nb", "im_ключ"])
def test_a_token_that_cannot_be_one_is_named(token: str) -> None:
    with pytest.raises(InvalidError) as raised:
        Memory(url="http://127.0.0.1:1", token=token)
    assert raised.value.field == "token"
