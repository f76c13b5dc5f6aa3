"""`infinite-memory move` and `edit` with a real daemon: what somebody else changed stays, and nothing that was typed is lost."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

from tests.processes import Installation
from tests.terminal import run_on_terminal

ELSEWHERE = "was changed by somebody else"


def on_a_terminal(shared: Installation, *arguments: str, editor: str) -> tuple[int, str]:
    """Run a command on a terminal, with a program in the place of the editor."""
    environ = shared.environ | {"TERM": "xterm-256color", "COLUMNS": "500", "EDITOR": editor}
    return run_on_terminal([sys.executable, "-m", "infinite_memory", *arguments], environ, cwd=shared.home.parent)


def write_editor(folder: Path, *lines: str) -> str:
    """Write an editor that runs Python; ``file`` is what it edits."""
    script = folder / "editor.py"
    script.write_text("\n".join(("import pathlib, subprocess, sys", "file = pathlib.Path(sys.argv[1])", *lines)))
    return f"{sys.executable} {script}"


def kept_texts(shared: Installation) -> dict[str, bytes]:
    """Read the files in which typed texts were kept, by their names; they are the owner's alone."""
    files = sorted(shared.home.glob("unsaved-memory-*.txt"))
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    return {file.name: file.read_bytes() for file in files}


def test_memories_move_and_come_back(shared: Installation) -> None:
    ids = [
        shared.call("store_memory", content=f"Seed packet {number}", scope="Kitchen")["memory_id"]
        for number in range(2)
    ]
    shared.call("store_memory", content="seed  packet 1", scope="Allotment")
    shared.call("update_memory", memory_id=ids[0], content="Seed packet nought")
    listed = shared.command("recall", "today", "--scope", "Kitchen").stdout
    done = shared.command("move", "-", "--to", "allotment", input=listed)
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"{one} moved from Kitchen to Allotment" for one in ids])
    assert "Allotment has the same text already" in done.stderr
    shown = shared.call("get_memory", memory_id=ids[0])
    assert (shown["memory"]["scope"], [one["scope"] for one in shown["revisions"]]) == ("Allotment", ["Kitchen"] * 2)
    assert shared.command("move", ids[0], "--to", "Allotment").stdout == f"{ids[0]} is in Allotment already\n"
    assert shared.command("undo").stdout.splitlines() == [f"{one} moved from Allotment to Kitchen" for one in ids]
    assert shared.call("get_memory", memory_id=ids[0])["memory"]["scope"] == "Kitchen"
    told = json.loads(shared.command("move", ids[1], "0" * 24, "--to", "Allotment", "--json").stdout)
    assert [one["memory_id"] for one in told["moved"]] == [ids[1]]
    assert [one["error_code"] for one in told["failed"]] == ["MEMORY_NOT_FOUND"]
    for code, said, arguments in (
        (1, "no scope", (ids[0], "--to", "Nowhere")), (1, "no memory has id", ("0" * 24, "--to", "Kitchen")), (2, "--to", (ids[0],)),
    ):  # fmt: skip
        done = shared.command("move", *arguments)
        assert (done.returncode, done.stdout) == (code, ""), done
        assert said in done.stderr


def test_an_edit_is_taken_back_where_nobody_changed_the_memory_since(shared: Installation) -> None:
    stored = shared.call("store_memory", content="Tea at four", tags=["tea"], scope="Kitchen")
    memory_id = stored["memory_id"]

    def said() -> tuple[str, list[str]]:
        memory = shared.call("get_memory", memory_id=memory_id)["memory"]
        return memory["text"], memory["tags"]

    assert shared.command("edit", memory_id, "Tea at five", "--tag", "late").returncode == 0
    assert shared.command("move", memory_id, "--to", "Global").returncode == 0
    assert shared.command("undo").stdout == f"{memory_id} moved from Global to Kitchen\n"
    done = shared.command("undo")  # past the move, which changed nothing that it says
    assert (done.returncode, done.stdout) == (0, f"{memory_id} says again what it said before; revision 5\n"), done
    assert said() == ("Tea at four", ["tea"])

    shared.command("edit", memory_id, "Tea at six")
    shared.call("update_memory", memory_id=memory_id, content="Tea at seven")
    done = shared.command("undo")
    assert (done.returncode, done.stdout) == (1, "")
    assert "was changed again since; show --history" in done.stderr
    assert said() == ("Tea at seven", ["tea"])
    assert "Tea" not in (shared.home / "forgotten.json").read_text()

    shared.command("edit", memory_id, "--title", "Teatime")
    assert "not taken away again" in shared.command("undo").stderr
    shared.command("edit", memory_id, "Tea at eight")
    told = json.loads(shared.command("undo", "--json").stdout)
    assert [one["memory_id"] for one in told["changed"]] == [memory_id]
    assert said() == ("Tea at seven", ["tea"])


def test_lines_of_a_text_run_on_in_a_table_and_stand_escaped_in_a_pipe(shared: Installation) -> None:
    memory_id = shared.call("store_memory", content="# Paints\n\n- hall:\tgreen")["memory_id"]
    assert "# Paints\\n\\n- hall:\\tgreen" in shared.command("search", "paints").stdout
    for arguments in (("search", "paints"), ("why", "paints"), ("forget", memory_id, "--dry-run")):
        code, shown = on_a_terminal(shared, *arguments, editor="")
        assert (code, "- hall: green" in shown) == (0, True), shown


def test_what_somebody_else_changed_while_the_editor_was_open_is_not_overwritten(
    shared: Installation, tmp_path: Path
) -> None:
    memory_id = shared.call("store_memory", content="The ladder is in the shed")["memory_id"]
    change = f"subprocess.run([sys.executable, '-m', 'infinite_memory', 'edit', '{memory_id}', 'It {ELSEWHERE}'], check=True)"
    code, shown = on_a_terminal(
        shared, "edit", memory_id, editor=write_editor(tmp_path, change, "file.write_text('It is in the barn\\n')")
    )
    assert code == 1
    assert "changed meanwhile" in shown
    assert shared.call("get_memory", memory_id=memory_id)["memory"]["text"] == f"It {ELSEWHERE}"
    name = f"unsaved-memory-{memory_id}.txt"
    assert kept_texts(shared)[name] == b"It is in the barn\n"
    assert str(shared.home / name) in shown
    done = shared.command("edit", memory_id, "-", input=(shared.home / name).read_text())
    assert done.returncode == 0
    assert shared.call("get_memory", memory_id=memory_id)["memory"]["text"] == "It is in the barn"


def test_what_was_typed_is_kept_where_it_cannot_be_saved(shared: Installation, tmp_path: Path) -> None:
    memory_id = shared.call("store_memory", content="The kettle is blue")["memory_id"]
    empty = write_editor(tmp_path, "file.write_text('   \\n')")
    code, shown = on_a_terminal(shared, "edit", memory_id, editor=empty)  # the daemon takes no blank text
    assert (code, kept_texts(shared)[f"unsaved-memory-{memory_id}.txt"]) == (1, b"   \n")
    failing = write_editor(tmp_path, "file.write_text('half of it')", "sys.exit(3)")
    code, shown = on_a_terminal(shared, "edit", memory_id, editor=failing)
    assert code == 2
    assert "ended with exit code 3; nothing was changed; what you wrote is in" in shown
    assert kept_texts(shared)[f"unsaved-memory-{memory_id}-2.txt"] == b"half of it"
    latin = write_editor(tmp_path, "file.write_bytes('größe'.encode('latin-1'))")
    code, shown = on_a_terminal(shared, "edit", memory_id, editor=latin)
    assert code == 2
    assert kept_texts(shared)[f"unsaved-memory-{memory_id}-3.txt"] == "größe".encode("latin-1")
    done = shared.command("edit", "0" * 24, "-", input="a text from a pipe\n")
    assert done.returncode == 1
    assert kept_texts(shared)[f"unsaved-memory-{'0' * 24}.txt"] == b"a text from a pipe"
    assert shared.call("get_memory", memory_id=memory_id)["memory"]["text"] == "The kettle is blue"
