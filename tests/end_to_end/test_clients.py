"""Clients that behave badly, or die: they harm nobody, leave nothing, and cost the daemon no memory."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from infinite_memory.daemon import ipc
from tests.processes import Installation, is_alive, rss_bytes, stopped, until

MIB = 1 << 20


def test_a_client_that_does_not_read_costs_no_memory_and_holds_nobody_up(shared: Installation) -> None:
    greedy, other = shared.serve(), shared.serve()
    assert greedy.ask("store_memory", content="y" * MIB, scope="Big")["status"] == "OK"
    request = {"action": "search_by_scope", "scope": "Big"}
    greedy.hold()
    pid = shared.daemon_pid()
    assert pid is not None
    until(
        lambda: not other.ask("get_memory_stats")["stats"]["pending_embeddings"], "it is embedded"
    )  # takes memory too
    before = rss_bytes(pid)
    greedy.send(*[request] * 200)  # two hundred MiB of replies
    for _ in range(20):
        assert other.ask("search_by_tag", tag="nothing")["status"] == "OK"
    assert rss_bytes(pid) - before < 100 * MIB
    greedy.go_on()
    for _ in range(200):
        assert len(greedy.reply()["results"][0]["text"]) == MIB
    assert (greedy.close(), other.close()) == (0, 0)


def test_a_slow_request_of_one_client_does_not_hold_up_the_others(shared: Installation) -> None:
    slow, quick = shared.serve(), shared.serve()
    assert quick.ask("ping")["pong"]
    long = [{"content": "tea and biscuits at noon. " * 2000}]  # seconds of a core, but not a minute of a busy one
    slow.send({"action": "ping"}, {"action": "store_memories", "memories": long})
    assert slow.reply()["pong"]
    for number in range(10):
        assert quick.ask("ping", request_id=number)["request_id"] == number
    assert not slow.has_more(), "ten requests were answered while the slow one was under way"
    assert slow.reply()["status"] == "OK"
    assert (slow.close(), quick.close()) == (0, 0)


def test_sigterm_ends_a_client_that_is_not_read(shared: Installation) -> None:
    client = shared.serve()
    assert client.ask("store_memory", content="z" * MIB, scope="Large")["status"] == "OK"
    client.hold()
    client.send(*[{"action": "search_by_scope", "scope": "Large"}] * 20)
    until(lambda: shared.status()["sessions"] >= 1, "its session is there")
    assert client.terminate(20) == 0


def test_sigterm_and_sigint_end_an_idle_client_at_once(shared: Installation) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        client = shared.serve()
        assert client.ask("ping")["pong"]
        client.process.send_signal(number)
        assert client.process.wait(10) == 0
        assert client.errors() == ""


def test_replies_that_are_on_their_way_are_delivered_after_sigterm(shared: Installation) -> None:
    """In some of many tries, lines that were read and not yet sent were answered as if the daemon had died."""
    for _ in range(10):
        client = shared.serve()
        client.send(
            {"action": "ping"}, *({"action": "store_memory", "content": f"m {n}", "request_id": n} for n in range(5))
        )
        assert client.reply()["pong"]
        client.process.terminate()
        replies = client.rest()
        assert client.process.wait(10) == 0
        assert [reply["request_id"] for reply in replies] == list(range(len(replies)))
        assert [reply for reply in replies if reply["status"] != "OK"] == []


def test_a_client_whose_reader_is_gone_ends(shared: Installation) -> None:
    reads, writes = os.pipe()
    client = subprocess.Popen(
        [sys.executable, "-m", "infinite_memory", "serve"], stdin=subprocess.PIPE, stdout=writes, env=shared.environ
    )
    os.close(writes)
    assert client.stdin is not None
    with client.stdin as stdin:
        stdin.write(b'{"action": "ping"}\n')
        stdin.flush()
        assert b"pong" in os.read(reads, 1000)
        os.close(reads)
        stdin.write(b'{"action": "ping"}\n')
        stdin.flush()
        assert client.wait(20) == 0


def test_a_client_dies_with_its_parent_even_if_its_input_stays_open(shared: Installation, tmp_path: Path) -> None:
    reads, writes = os.pipe()
    # A parent that starts `serve` on a pipe which others hold open, and is killed.
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys, time\n"
         "child = subprocess.Popen([sys.executable, '-m', 'infinite_memory', 'serve'])\n"
         "print(child.pid, flush=True)\ntime.sleep(600)\n"],
        stdin=reads, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=shared.environ,
    )  # fmt: skip
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        until(lambda: shared.status()["sessions"] >= 1, "its session has begun")
        parent.kill()
        parent.wait()
        until(lambda: not is_alive(child), "the client is gone", 30)
    finally:
        parent.stdout.close()
        os.close(reads)
        os.close(writes)


def test_two_hundred_connections_that_say_nothing_hold_nobody_up(shared: Installation) -> None:
    client = shared.serve()
    assert client.ask("ping")["pong"]
    silent = [ipc.connect(shared.home, 10) for _ in range(200)]
    try:
        assert all(silent)
        late = shared.serve()
        for one in (client, late):
            assert one.ask("store_memory", content="tea")["status"] == "OK"
        assert (client.close(), late.close()) == (0, 0)
        assert shared.daemon_pid() is not None
        for link in silent:  # they are let go of after a while
            assert link is not None
            link.settimeout(60)
            assert link.recv(1) == b""
    finally:
        for link in silent:
            if link is not None:
                link.close()


def test_nonsense_on_the_socket_harms_nobody(shared: Installation) -> None:
    client = shared.serve()
    for greeting in (b"\n", b"nonsense\n", b"[]\n", b"{}\n", b"\xff\n", b'{"kind": "status"', b"[" * 100_000 + b"\n",
                     b'{"kind": "session", "environ": 5, "version": "0.1.0", "protocol": 1}\n',
                     b'{"kind": "session", "config_file": [], "version": "0.1.0", "protocol": 1}\n',
                     b"x" * (2 * MIB)):  # fmt: skip
        link = ipc.connect(shared.home, 10)
        assert link is not None
        with link:
            try:
                link.sendall(greeting)
                link.shutdown(socket.SHUT_WR)
                while link.recv(65536):
                    pass
            except OSError:  # it was hung up on
                pass
        assert client.ask("ping")["pong"]
        if client.process.poll() is not None:
            raise AssertionError(client.errors())
    assert client.close() == 0


def test_a_client_of_a_frozen_daemon_goes_on_when_it_thaws(shared: Installation) -> None:
    client = shared.serve()
    assert client.ask("ping")["pong"]
    pid = shared.daemon_pid()
    assert pid is not None
    with stopped(pid):
        client.send({"action": "store_memory", "content": "tea", "request_id": 1})
        late = shared.serve()
        late.send({"action": "ping", "request_id": 2})
    assert (client.reply()["request_id"], late.reply()["request_id"]) == (1, 2)
    assert shared.daemon_pid() == pid
    assert (client.close(), late.close()) == (0, 0)


def test_call_reads_its_fields_and_tells_by_its_exit_code(shared: Installation) -> None:
    done = shared.command("call", "store_memory", "-", input='{"content": "tea"}')
    assert done.returncode == 0
    assert shared.command("call", "get_memory", '{"memory_id": "0"}').returncode == 1
    for wrong in ("nonsense", "[]", '"text"'):
        assert shared.command("call", "ping", wrong).returncode == 2
    assert shared.command("call", "ping", "--set", "log.level=LOUD").returncode == 2
    assert shared.command("doctor", "--json").returncode in (0, 1)
