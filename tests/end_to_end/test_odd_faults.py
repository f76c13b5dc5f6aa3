"""What fresh eyes tried in order to lose a memory or hang a client; each of these is answered, and what was acknowledged is there."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.daemon import ipc
from tests.processes import LONG, Client, Installation, is_alive, need_parts, processes_of, stopped, until

MIB = 1 << 20


def kill_daemon(installation: Installation) -> None:
    pid = installation.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "the daemon is dead")


def store(client: Client, text: str) -> str:
    reply = client.ask("store_memory", content=text)
    assert reply["status"] == "OK", reply
    memory_id: str = reply["memory_id"]
    return memory_id


def test_half_a_line_survives_the_daemon(shared: Installation) -> None:
    client = shared.serve()
    before = client.ask("list_memories")["total"]
    line = json.dumps({"action": "store_memory", "content": "in two halves", "request_id": 1}).encode() + b"\n"
    client.send_bytes(line[:30])
    kill_daemon(shared)
    client.send_bytes(line[30:])
    reply = client.reply()
    assert (reply["status"], reply["request_id"]) == ("OK", 1)
    assert client.ask("list_memories")["total"] == before + 1


@pytest.mark.parametrize("rpc", [False, True])
def test_a_daemon_that_dies_within_a_line_too_long_is_answered_once(shared: Installation, rpc: bool) -> None:
    """Found by the soak: in JSON-RPC nothing was noted of a line that is passed on in pieces, and the client waited for ever."""
    client = shared.serve()
    if rpc:
        client.initialize()
    else:
        assert client.ask("ping")["pong"]
    start = b'{"jsonrpc": "2.0", "id": 7, "action": "ping", "x": "' + b"y" * 20 * MIB
    client.send_bytes(start)
    kill_daemon(shared)
    client.send_bytes(b"y" * 5 * MIB + b'"}\n')
    reply = client.reply()
    assert reply["error"]["code"] == -32603 if rpc else reply["error_code"] == "CONNECTION_ERROR"
    if rpc:
        assert client.tool(8, "ping")["result"]["structuredContent"]["pong"]
    else:
        assert client.ask("ping")["pong"]
    client.stdin.close()
    assert client.rest() == []


def test_a_line_too_long_in_json_rpc_gets_one_answer_and_no_more_at_the_end(shared: Installation) -> None:
    client = shared.serve()
    client.initialize()
    for size in (17 * MIB, 40 * MIB):
        client.send_bytes(b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "x": "' + b"y" * size + b'"}\n')
        reply = client.reply()
        assert (reply["id"], reply["error"]["code"]) == (None, -32600)
    client.stdin.close()
    assert client.rest() == []
    assert client.process.wait(30) == 0


def test_a_handshake_lost_with_the_daemon_can_be_made_again(installation: Installation) -> None:
    client = installation.serve()
    until(lambda: installation.daemon_pid() and installation.status().get("sessions"), "its session has begun")
    pid = installation.daemon_pid()
    assert pid is not None
    with stopped(pid):
        about = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        client.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        until(lambda: _unread(client) == 0, "the client has taken the line")
        os.kill(pid, signal.SIGKILL)
    lost = client.answer()
    assert (lost["id"], lost["error"]["code"]) == (0, -32603)
    assert client.initialize()["result"]["serverInfo"]["name"] == "infinite-memory"
    assert client.tool(1, "store_memory", content="tea")["result"]["structuredContent"]["outcome"] == "stored"


def _unread(client: Client) -> int:
    """Count the bytes in a client's standard input that it has not read."""
    import fcntl
    import struct
    import termios

    (count,) = struct.unpack("i", fcntl.ioctl(client.stdin, termios.FIONREAD, b"\0\0\0\0"))
    return int(count)


def test_a_client_that_is_frozen_while_it_starts_the_daemon_keeps_nobody_waiting(installation: Installation) -> None:
    """Found by asking what Ctrl-Z does to a first start: everybody else waited for the lock of the one that slept."""
    installation.home.mkdir()
    with ipc.locked(ipc.start_lock_path(installation.home), wait=False) as held:
        assert held
        done = installation.command("call", "store_memory", '{"content": "tea"}')
        assert done.returncode == 0, done.stderr
    assert installation.call("list_memories")["total"] == 1
    assert len(installation.processes()) == 2


def test_clients_killed_at_any_moment_of_a_first_start_leave_one_daemon_or_none(installation: Installation) -> None:
    for delay_s in (0.02, 0.05, 0.08, 0.12, 0.2, 0.3):
        client = installation.serve()
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.process.wait(delay_s)
        client.kill()
    assert installation.call("store_memory", content="tea")["status"] == "OK"
    until(lambda: len(installation.processes()) == 2, "one daemon and its MongoDB are left")


def test_stop_does_not_wait_for_a_client_that_does_not_read(installation: Installation) -> None:
    greedy = installation.serve()
    store(greedy, "y" * MIB)
    greedy.hold()
    greedy.send(*[{"action": "list_memories"}] * 50)
    other = installation.serve()
    kept = store(other, "tea")
    done = installation.command("daemon", "stop", timeout_s=90)
    assert (done.returncode, done.stdout) == (0, "the daemon has stopped\n")
    assert other.ask("get_memory", memory_id=kept)["memory"]["text"] == "tea"
    greedy.go_on()
    replies = [greedy.reply() for _ in range(50)]
    assert {reply.get("error_code", "OK") for reply in replies} <= {"OK", "CONNECTION_ERROR"}


def test_stopping_and_starting_in_turn_loses_nothing(installation: Installation) -> None:
    """Stops and first requests cross at every moment; whoever asks meets a daemon, and what was acknowledged is there."""
    kept: dict[str, str] = {}
    over = threading.Event()
    clients = [installation.serve() for _ in range(3)]

    def work(client: Client, number: int) -> None:
        count = 0
        while not over.is_set():
            count += 1
            reply = client.ask("store_memory", content=f"{count} of {number}")
            if reply["status"] == "OK":
                kept[reply["memory_id"]] = f"{count} of {number}"
            else:
                assert reply["error_code"] == "CONNECTION_ERROR", reply

    threads = [threading.Thread(target=work, args=(one, number)) for number, one in enumerate(clients)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(12 if LONG else 2):
            wanted = len(kept) + 2
            until(lambda wanted=wanted: len(kept) >= wanted, "memories are stored")
            stops = [
                subprocess.Popen([sys.executable, "-m", "infinite_memory", "daemon", "stop"], env=installation.environ,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for _ in range(1 + turn % 3)
            ]  # fmt: skip
            for one in stops:
                one.wait(90)
    finally:
        over.set()
        for thread in threads:
            thread.join(90)
            assert not thread.is_alive(), "a client hangs"
    found: dict[str, str] = {}
    page: dict[str, Any] = {"next_cursor": None}
    while not found or page["next_cursor"] is not None:
        cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else {}
        page = clients[0].ask("list_memories", limit=1000, **cursor)
        found |= {memory["memory_id"]: memory["text"] for memory in page["results"]}
    assert kept.items() <= found.items()
    assert len(set(found.values())) == len(found), "none is there twice"


def test_many_requests_sent_before_any_reply_is_read(shared: Installation) -> None:
    client = shared.serve()
    assert client.ask("ping")["pong"]
    client.hold()
    sender = threading.Thread(
        target=client.send, args=[{"action": "ping", "request_id": number} for number in range(5000)]
    )
    sender.start()
    client.go_on()
    assert [client.reply()["request_id"] for _ in range(5000)] == list(range(5000))
    sender.join(30)
    assert client.close() == 0


def test_a_lock_file_that_was_removed_makes_no_second_writer_that_stays(installation: Installation) -> None:
    """Somebody tidies up `daemon.lock` and `daemon.json` while the daemon runs: a second one comes, and the first goes."""
    client = installation.serve()
    kept = [store(client, f"memory {number}") for number in range(5)]
    first = installation.daemon_pid()
    assert first is not None
    (installation.home / "daemon.lock").unlink()
    (installation.home / "daemon.json").unlink()
    other = installation.serve()
    other.send({"action": "store_memory", "content": "of the other"})
    answered = other.reply()  # by the first one still, by the second, or refused while the one follows the other
    assert answered["status"] == "OK" or answered["error_code"] == "CONNECTION_ERROR"
    kept += [answered["memory_id"]] if answered["status"] == "OK" else []
    until(lambda: not is_alive(first), "the first daemon has gone")
    until(lambda: other.ask("store_memory", content="later")["status"] == "OK", "the second one serves")
    found = {one["memory_id"] for one in client.ask("list_memories", limit=100)["results"]}
    assert set(kept) <= found
    for memory_id in kept:
        assert other.ask("get_memory", memory_id=memory_id)["status"] == "OK"


def test_a_home_that_is_moved_while_its_daemon_runs_is_whole_in_its_new_place(tmp_path: Path) -> None:
    need_parts()
    with Installation(tmp_path / "old") as old:
        client = old.serve()
        kept = [store(client, f"memory {number}") for number in range(5)]
        pid = old.daemon_pid()
        assert pid is not None
        (tmp_path / "old").rename(tmp_path / "new")
        until(lambda: not is_alive(pid), "the daemon has gone")
        client.kill()
        until(lambda: not processes_of(tmp_path / "old"), "its MongoDB too")
    with Installation(tmp_path / "new") as new:
        found = {one["memory_id"] for one in new.serve().ask("list_memories")["results"]}
        assert found == set(kept)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process are set on Linux")
def test_more_connections_than_files_may_be_open_are_waited_out(installation: Installation) -> None:
    """Who says nothing is let go of after a while; meanwhile an error is allowed, a daemon that ends or hangs is not."""
    kept = store(installation.serve(), "before")
    pid = installation.daemon_pid()
    assert pid is not None
    limit = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 40
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
    silent = [ipc.connect(installation.home, 5) for _ in range(120)]
    try:
        late = installation.serve()
        for reply in (late.ask("get_memory", memory_id=kept), late.ask("store_memory", content="perhaps")):
            assert reply["status"] == "OK" or reply["error_code"] == "CONNECTION_ERROR", reply
        until(lambda: late.ask("store_memory", content="after")["status"] == "OK", "the silent ones were let go of")
    finally:
        for link in silent:
            if link is not None:
                link.close()
    assert installation.daemon_pid() == pid, "the daemon stayed"
    found = {one["text"] for one in installation.call("list_memories")["results"]}
    assert {"before", "after"} <= found <= {"before", "after", "perhaps"}


def test_a_mongodb_that_dies_again_and_again_is_started_by_whoever_asks(installation: Installation) -> None:
    """The supervisor gives up after five short lives in a row; a request still brings it back, after a pause."""
    client = installation.serve()
    kept = [store(client, "first")]
    for number in range(6):
        pid = installation.status()["mongod_pid"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not is_alive(pid), "it is dead")
        until(lambda: client.ask("list_memories")["status"] == "OK", "it answers again")
        kept.append(store(client, f"after death {number}"))
    assert {one["memory_id"] for one in client.ask("list_memories", limit=100)["results"]} == set(kept)


def test_a_disk_that_becomes_read_only_loses_nothing(tmp_path: Path) -> None:
    need_parts()
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600m,mode=0700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system of its own takes root and leave to mount")
    try:
        (tmp_path / "home").symlink_to(disk)  # what the clients say stays beside it, and can be written
        with Installation(tmp_path / "home") as installation:
            client = installation.serve()
            kept = [store(client, f"memory {number}") for number in range(10)]
            installation.kill_everything()  # or the open files would not let it become so
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            reply = client.ask("store_memory", content="no")
            assert reply["error_code"] == "CONNECTION_ERROR", reply
            assert "Read-only" in reply["error"], reply
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            kept.append(store(client, "yes"))
            assert {one["memory_id"] for one in client.ask("list_memories", limit=100)["results"]} == set(kept)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_client_whose_parent_closed_its_pipes_ends_well(shared: Installation, closed: tuple[int, ...]) -> None:
    """Found by trying: with standard output or errors closed it ended with an error, with all closed it read its own output."""
    code = "import os, sys\n" + "".join(f"os.close({number})\n" for number in closed)
    code += "os.execv(sys.executable, [sys.executable, '-m', 'infinite_memory', 'serve'])\n"
    done = subprocess.run(
        [sys.executable, "-c", code], env=shared.environ, input=b'{"action": "ping"}\n', capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert (b"pong" in done.stdout) == (0 not in closed and 1 not in closed)


def test_what_a_crashed_daemon_printed_is_kept_over_the_next_start(installation: Installation) -> None:
    assert installation.call("store_memory", content="tea")["status"] == "OK"
    pid = installation.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSEGV)
    until(lambda: not is_alive(pid), "it has crashed")
    assert installation.call("list_memories")["total"] == 1
    said = (installation.home / "logs" / "daemon.out.1").read_text()
    assert "Segmentation fault" in said
    assert "daemon.py" in said


def test_scopes_dropped_and_merged_under_writers_lose_nothing_acknowledged(installation: Installation) -> None:
    """A store into a scope that goes at this moment is refused, or its memory is there."""
    writer, other = installation.serve(), installation.serve()
    kept: dict[str, str] = {}
    over = threading.Event()

    def write() -> None:
        count = 0
        while not over.is_set():
            count += 1
            reply = writer.ask("store_memory", content=f"memory {count}", scope="Draft", tags=["draft"])
            if reply["status"] == "OK":
                kept[reply["memory_id"]] = f"memory {count}"

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(6):
            wanted = len(kept) + 5
            until(lambda wanted=wanted: len(kept) >= wanted, "memories are stored")
            merged = other.ask("merge_memory_scopes", scope="Draft", into="Kept")
            assert merged["status"] == "OK" or merged["error_code"] in ("NOT_FOUND", "ALREADY_EXISTS"), merged
            if merged.get("error_code") == "NOT_FOUND" and "Kept" in merged["error"]:
                assert other.ask("create_memory_scope", scope_name="Kept")["status"] == "OK"
    finally:
        over.set()
        thread.join(60)
    lost = [one for one in kept if other.ask("get_memory", memory_id=one)["status"] != "OK"]
    assert lost == []
    listed = other.ask("search_by_tag", tag="draft", limit=1000)
    assert kept.keys() <= {one["memory_id"] for one in listed["results"]}


def test_sidecars_removed_under_a_running_daemon_come_back(installation: Installation) -> None:
    installation.environ["INFINITE_MEMORY_SIDECAR__SAVE_EVERY_S"] = "1"
    client = installation.serve()
    kept = [store(client, f"The lantern number {number} was lit") for number in range(5)]
    aside = (installation.home / "sidecars").rename(
        installation.home.parent / "gone"
    )  # in one step, for it is being written
    shutil.rmtree(aside, ignore_errors=True)
    kept += [store(client, f"The lamp number {number} was lit") for number in range(5)]
    for mode in ("hybrid", "text", "semantic"):
        found = client.ask("retrieve_memory", query="which lamp was lit?", mode=mode, top_k=20)
        ids = {one["memory_id"] for one in found["results"]}
        assert ids >= set(kept[5:]) if mode == "text" else ids == set(kept), mode
    assert client.ask("delete_memory", target={"memory_id": kept[0]}, forget_mode="hard")["deleted_count"] == 1
    kill_daemon(installation)
    assert {one["memory_id"] for one in client.ask("list_memories")["results"]} == set(kept[1:])
    found = client.ask("retrieve_memory", query="lamp lit", mode="text", top_k=20)
    assert {one["memory_id"] for one in found["results"]} == set(kept[1:])
