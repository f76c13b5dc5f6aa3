"""The commands for people, with a real daemon: stored, found, shown, changed, forgotten and brought back, in a pipe and on a terminal."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Installation, until
from tests.terminal import run_on_terminal

Json = dict[str, Any]

HOSTILE = "tea\x1b[2J\x07\x9b31m\u202eevil"


def remember(shared: Installation, *arguments: str, text: str | None = None) -> str:
    """Store a memory; returns its id."""
    done = shared.command("remember", *arguments, **({} if text is None else {"input": text}))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[0]


def columns(output: str) -> list[list[str]]:
    """Take the lines of a pipe apart."""
    return [line.split("\t") for line in output.splitlines()]


def on_a_terminal(shared: Installation, *arguments: str, answer: str = "") -> tuple[int, str]:
    """Run a command on a terminal, where *answer* is typed; returns exit code and all that was shown."""
    command = [sys.executable, "-m", "infinite_memory", *arguments]
    environ = shared.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    return run_on_terminal(command, environ, typed=answer, cwd=shared.home.parent)


def test_a_memory_is_stored_found_shown_and_changed(shared: Installation) -> None:
    memory_id = remember(
        shared, "Darjeeling", "is my favourite tea", "--scope", "Kitchen", "--tag", "tea", "--tag", "likes"
    )
    [line] = columns(shared.command("search", "which tea do I like", "--scope", "Kitchen").stdout)
    assert (line[0], line[2], line[3], line[5]) == (memory_id, "Kitchen", "tea,likes", "Darjeeling is my favourite tea")
    assert 0 < float(line[4]) <= 1
    [line] = columns(shared.command("recall", "today", "--scope", "Kitchen").stdout)
    assert (line[0], line[4]) == (memory_id, "")
    reply = json.loads(shared.command("search", "tea", "--scope", "Kitchen", "--tag", "likes", "--json").stdout)
    assert reply["status"] == "OK"
    assert [result["memory_id"] for result in reply["results"]] == [memory_id]
    assert shared.command("search", "tea", "--scope", "Kitchen", "--tag", "nothing").stdout == ""
    listed = [line.split("\t") for line in shared.command("scopes", "list").stdout.splitlines()]
    assert [(count, len(rest)) for name, count, *rest in listed if name == "Kitchen"] == [("1", 3)]

    done = shared.command("edit", memory_id, "-", "--importance", "7", "--no-tags", input="Assam is\nmy tea\n")
    assert done.stdout == f"{memory_id} changed; revision 2\n"
    shown = shared.command("show", memory_id)
    assert shown.stdout.endswith("\n\nAssam is\nmy tea\n")
    assert re.search(r"^importance: +7", shown.stdout, re.MULTILINE)
    assert "--history" in shown.stderr
    assert "Darjeeling is my favourite tea" in shared.command("show", memory_id, "--history").stdout
    assert json.loads(shared.command("show", memory_id, "--json").stdout)["memory"]["tags"] == []
    assert "Darjeeling" not in shared.command("show", memory_id, "--history", "--before", "1").stdout


def test_what_is_wrong_is_said_by_exit_code(shared: Installation) -> None:
    nowhere = "0" * 24
    for code, said, arguments in (
        (1, "no memory has id", ("show", nowhere)), (1, "no memory has id", ("edit", nowhere, "text")),
        (1, "nothing matches", ("forget", nowhere, "--yes")), (1, "no memory has id", ("undo", nowhere)),
        (1, "no memory has the tag 'nowhere'", ("forget", "--tag", "nowhere", "--yes")),
        (2, "nothing is named", ("forget", "--yes")), (2, "give ids, or", ("forget", nowhere, "--tag", "x")),
        (2, "goes with --query", ("forget", "--tag", "x", "--min-confidence", "1")), (2, "a terminal only", ("edit", nowhere)),
        (2, "--no-tags goes without", ("edit", nowhere, "--tag", "x", "--no-tags")), (2, "", ("search",)),
        (2, "--before goes with --history", ("show", nowhere, "--before", "3")),
        (2, "usage: infinite-memory scopes merge", ("scopes", "merge", "A", "--into", "B")),
        (2, "infinite-memory why: error: unrecognized arguments: --id", ("why", "tea", "--id", nowhere)),
        (1, "before_revision", ("show", nowhere, "--history", "--before", "x")),
    ):  # fmt: skip
        done = shared.command(*arguments)
        assert (done.returncode, done.stdout) == (code, ""), (arguments, done)
        assert said in done.stderr, (arguments, done.stderr)
    latin = subprocess.run(
        [sys.executable, "-m", "infinite_memory", "remember", "-"], env=shared.environ, input="größe".encode("latin-1"),
        capture_output=True, check=False,
    )  # fmt: skip
    assert latin.returncode == 2
    assert b"not UTF-8" in latin.stderr


def test_what_concerns_the_whole_memory_tells_programs_too(shared: Installation, tmp_path: Path) -> None:
    remember(shared, "kept in a file")
    started = json.loads(shared.command("daemon", "start", "--json").stdout)
    assert started == {"running": True, "pid": shared.status()["pid"]}
    indexed = json.loads(shared.command("reindex", "--json").stdout)
    assert (indexed["status"], indexed["count"] > 0) == ("OK", True)
    file = tmp_path / "all.jsonl"
    told = json.loads(shared.command("export", "-o", str(file), "--json").stdout)
    assert (told["status"], told["output"], sum(told["counts"].values()) > 0) == ("OK", str(file), True)
    assert "kept in a file" in file.read_text("utf-8")
    refused = shared.command("export", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--json goes with --output" in refused.stderr


def test_what_was_forgotten_comes_back(shared: Installation) -> None:
    (shared.home / "forgotten.json").unlink(missing_ok=True)  # what other tests edited
    ids = [remember(shared, f"errand {number}", "--scope", "Errands", "--tag", "errand") for number in range(3)]
    done = shared.command("forget", "--tag", "errand")
    assert (done.returncode, done.stdout) == (2, "")
    assert "say --yes" in done.stderr
    assert shared.command("forget", "--scope", "ALL", "--yes").returncode == 2  # everything is not named so easily
    done = shared.command("forget", "--tag", "errand", "--scope", "ALL", "--dry-run")
    assert {line[0] for line in columns(done.stdout)} == set(ids)
    done = shared.command("forget", "--tag", "errand", "--dry-run")
    assert {line[0] for line in columns(done.stdout)} == set(ids)
    assert "3 memories would go" in done.stderr

    assert shared.command("forget", "--tag", "errand", "--yes").returncode == 0
    piped = shared.command("recall", "today", "--scope", "Errands").stdout
    assert piped == ""
    assert shared.command("undo").returncode == 0
    piped = shared.command("recall", "today", "--scope", "Errands").stdout
    assert {line[0] for line in columns(piped)} == set(ids)
    assert (
        shared.command("forget", "-", "--yes", input=piped).returncode == 0
    )  # what a listing prints is taken as it is
    file = shared.home / "forgotten.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "errand" not in file.read_text()

    # What was forgotten before that comes back after it.
    alone = remember(shared, "an errand of its own", "--scope", "Errands")
    assert json.loads(shared.command("forget", alone, "--yes", "--json").stdout)["memory_ids"] == [alone]
    assert json.loads(shared.command("undo", "--json").stdout)["restored"][0]["memory_id"] == alone
    assert len(json.loads(shared.command("undo", "--json").stdout)["restored"]) == 3
    elsewhere = remember(shared, "what an assistant forgot", "--scope", "Errands")
    shared.call("delete_memory", target={"memory_id": elsewhere})
    done = shared.command("undo")  # nothing of this terminal's: what others forgot is shown
    assert (done.returncode, columns(done.stdout)[0][0]) == (1, elsewhere)
    assert shared.command("undo", "--list").stdout == done.stdout
    assert shared.command("undo", elsewhere).returncode == 0
    assert shared.call("delete_memory", target={"memory_id": elsewhere}, forget_mode="hard")["deleted_count"] == 1
    assert shared.command("forget", "--scope", "Errands", "--yes").returncode == 0
    assert "4 memories of the scope" in shared.command("undo").stderr

    # A scope that somebody else took out of the archive keeps what was forgotten in it since.
    assert shared.command("forget", "--scope", "Errands", "--yes").returncode == 0
    shared.call("restore_memory", scope="Errands")
    shared.call("delete_memory", target={"memory_id": ids[1]})
    done = shared.command("undo", "--json")
    assert done.returncode == 1
    assert "not archived any more" in json.loads(done.stdout)["failed"][0]["error"]
    assert ids[1] not in {one["memory_id"] for one in shared.call("list_memories", scope="Errands")["results"]}
    assert shared.command("undo", ids[1]).returncode == 0

    assert shared.command("forget", ids[0], "--for-good", "--yes").returncode == 0
    assert shared.command("undo", ids[0]).returncode == 1


def test_undo_names_a_scope_that_is_gone_and_counts_nothing(shared: Installation) -> None:
    remember(shared, "the last of its kind", "--scope", "Gone")
    assert shared.command("forget", "--scope", "Gone", "--yes").returncode == 0
    shared.call("delete_memory", target={"scope": "Gone"}, forget_mode="hard")
    done = shared.command("undo")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no scope 'Gone'" in done.stderr
    assert "brought back" not in done.stderr


def test_a_terminal_is_asked_and_shown_a_table(shared: Installation) -> None:
    memory_id = remember(shared, "The ladder is in the shed", "--scope", "Garden", "--tag", "tools")
    code, shown = on_a_terminal(shared, "search", "where is the ladder", "--scope", "Garden")
    assert code == 0
    assert memory_id in shown
    assert "\x1b[1;33mladder\x1b[0m" in shown  # the words of the question stand out
    code, shown = on_a_terminal(shared, "serve", answer="\x04")
    assert code == 0
    assert "waiting for a client's requests" in shown
    for answer, expected in (("n\n", 2), ("\n", 2), ("y\n", 0)):
        code, shown = on_a_terminal(shared, "forget", memory_id, answer=answer)
        assert "The ladder is in the shed" in shown
        assert "forget 1 memory? [y/N]" in shown
        assert "Garden" in shown  # in which scope it is; a preview's reply does not say
        assert ("nothing was changed" in shown) == (expected != 0)
        assert code == expected
    assert shared.command("undo").returncode == 0
    editor = f"{sys.executable} -c \"import sys; open(sys.argv[1], 'w').write('The ladder is in the barn\\n')\""
    shared.environ["EDITOR"] = editor
    code, shown = on_a_terminal(shared, "edit", memory_id)
    assert code == 0, shown
    assert shared.call("get_memory", memory_id=memory_id)["memory"]["text"] == "The ladder is in the barn"
    code, shown = on_a_terminal(shared, "edit", memory_id)
    assert "nothing was changed" in shown


def test_what_is_stored_moves_no_cursor(shared: Installation) -> None:
    reply = shared.call(
        "store_memory", content=f"{HOSTILE}\nOK", scope="Odd", tags=["odd\x1b[2Jtag"], metadata={"x": HOSTILE}
    )
    memory_id = reply["memory_id"]
    for arguments in (
        ("search", "tea", "--scope", "Odd"), ("recall", "today", "--scope", "Odd"), ("show", memory_id), ("show", memory_id, "--json"),
        ("forget", memory_id, "--dry-run"), ("forget", memory_id), ("search", "\x1b[2Jx", "--scope", "no\x1b[2Jwhere"),
    ):  # fmt: skip
        _, shown = on_a_terminal(shared, *arguments, answer="n\n")
        for character in ("\x1b[2J", "\x07", "\x9b", "\u202e"):
            assert character not in shown, (arguments, shown)
    for arguments in (("search", "tea", "--scope", "Odd"), ("recall", "today", "--scope", "Odd")):
        piped = shared.command(*arguments).stdout
        assert len(piped.splitlines()) == 1
        assert "\x1b" not in piped


def test_why_tells_the_parts_and_what_kept_a_memory_out(shared: Installation) -> None:
    first = remember(shared, "The kettle stands beside the stove", "--scope", "Why")
    second = remember(shared, "Invoices go to the tax office", "--scope", "Why")
    query = "where is the kettle"
    lines = columns(shared.command("why", query, "--scope", "Why").stdout)
    assert [line[7] for line in lines] == [first, second]
    score, *parts = map(float, lines[0][:6])
    assert sum(parts) == pytest.approx(score, abs=0.003)
    assert lines[0][6].startswith("kettle ")
    assert "number 2" in shared.command("why", query, second, "--scope", "Why", "-n", "1").stdout
    assert "tags" in shared.command("why", query, second, "--scope", "Why", "--tag", "nothing").stdout
    unknown = shared.command("why", query, "0" * 24)
    assert (unknown.returncode, "no memory has this id" in unknown.stdout) == (1, True)
    code, shown = on_a_terminal(shared, "why", query, "--scope", "Why")
    assert code == 0
    assert "meaning" in shown


def test_tail_shows_what_others_store_change_and_forget(shared: Installation) -> None:
    before = remember(shared, "was there before", "--scope", "Tail")
    tail = subprocess.Popen(
        [sys.executable, "-m", "infinite_memory", "tail", "-n", "1", "--scope", "tail", "--json"], env=shared.environ,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=shared.home.parent,
    )  # fmt: skip
    lines: list[Json] = []

    def take() -> None:
        assert tail.stdout is not None
        lines.extend(json.loads(line) for line in tail.stdout)

    reader = threading.Thread(target=take)
    reader.start()
    try:
        until(lambda: lines, "tail has come")
        client = shared.serve()
        memory_id = client.ask("store_memory", content="while you watch", scope="Tail")["memory_id"]
        until(lambda: len(lines) == 2, "it was shown as stored")
        client.ask("store_memory", content="elsewhere", scope="Other")
        client.ask("update_memory", memory_id=memory_id, content="still watching")
        until(lambda: len(lines) == 3, "it was shown as changed")
        client.ask("delete_memory", target={"memory_id": memory_id})
        until(lambda: len(lines) == 4, "it was shown as forgotten")
        client.ask("restore_memory", memory_id=memory_id)
        until(lambda: len(lines) == 5, "it was shown as brought back")
    finally:
        tail.send_signal(signal.SIGINT)
        _, errors = tail.communicate(timeout=30)
        reader.join(30)
    assert tail.returncode == 130
    assert errors == ""
    told = [(line["event"], line.get("memory", line)["memory_id"]) for line in lines]
    events = ("stored", "changed", "forgotten", "restored")
    assert told == [("stored", before), *((event, memory_id) for event in events)]
    assert "elsewhere" not in json.dumps(lines)


def test_status_tells_of_the_memory_and_starts_nothing(installation: Installation) -> None:
    done = installation.command("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(installation.command("status", "--json").stdout) == {"running": False}
    assert installation.daemon_pid() is None
    remember(installation, "one")
    done = installation.command("status")
    assert done.returncode == 0
    assert re.search(r"^memories: +1 in 1 scope$", done.stdout, re.MULTILINE)
    told = json.loads(installation.command("status", "--json").stdout)
    assert told["daemon"]["pid"] == installation.daemon_pid()
    assert told["stats"]["total_memories"] == 1
