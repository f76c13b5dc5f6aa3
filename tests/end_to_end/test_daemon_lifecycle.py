"""A daemon's life: started once by ten, stopped politely, replaced, idle, and what it leaves behind: nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infinite_memory import __version__
from infinite_memory.daemon import ipc
from tests.processes import LONG, ROOT, Client, Installation, is_alive, need_parts, until


def test_ten_clients_that_start_at_once_start_one_daemon(installation: Installation) -> None:
    clients = [installation.serve() for _ in range(10)]
    for number, client in enumerate(clients):
        client.send({"action": "store_memory", "content": f"memory {number}"}, {"action": "list_memories"})
    assert [client.reply()["status"] for client in clients] == ["OK"] * 10
    pid = installation.daemon_pid()
    assert pid is not None
    assert len(installation.processes()) == 2  # the daemon and its mongod
    assert clients[0].reply()["status"] == "OK"
    assert clients[0].ask("list_memories")["total"] == 10
    assert installation.status()["sessions"] == 10
    assert [client.close() for client in clients] == [0] * 10
    until(lambda: installation.status()["sessions"] == 0, "the daemon has noticed that all left")


def test_what_was_sent_before_the_input_ended_is_answered(installation: Installation) -> None:
    client = installation.serve()
    client.send(*({"action": "store_memory", "content": f"memory {n}", "request_id": n} for n in range(30)))
    client.stdin.close()
    assert [(one["status"], one["request_id"]) for one in client.rest()] == [("OK", n) for n in range(30)]
    assert client.process.wait(10) == 0


def test_stop_waits_for_requests_under_way_and_leaves_nothing(installation: Installation) -> None:
    client = installation.serve()
    assert client.ask("store_memory", content="first")["status"] == "OK"
    long = "tea and biscuits at noon. " * 1500  # some forty windows to embed
    client.send({"action": "ping"}, {"action": "store_memory", "content": long, "request_id": "long"})
    assert client.reply()["pong"]  # so the long one is under way
    done = installation.command("daemon", "stop")
    assert (done.returncode, done.stdout) == (0, "the daemon has stopped\n")
    assert installation.processes() == []
    assert not (installation.home / "daemon.json").exists()
    assert not (installation.home / "daemon.sock").exists()
    reply = client.reply()
    assert (reply["status"], reply["request_id"]) == ("OK", "long")
    assert json.loads(installation.command("daemon", "stop", "--json").stdout) == {"running": False, "pid": None}
    assert client.ask("get_memory", memory_id=reply["memory_id"])["memory"]["text"] == long


def test_an_idle_client_does_not_bring_a_stopped_daemon_back(installation: Installation) -> None:
    client = installation.serve()
    assert client.ask("ping")["pong"]
    assert installation.command("daemon", "stop").returncode == 0
    assert installation.command("daemon", "status").returncode == 1
    assert installation.processes() == []
    assert client.ask("ping")["pong"]
    assert installation.daemon_pid() is not None


def test_stop_and_status_say_so_where_none_runs(installation: Installation) -> None:
    assert installation.command("daemon", "stop").stdout == "no daemon runs\n"
    status = installation.command("daemon", "status", "--json")
    assert (status.returncode, json.loads(status.stdout)) == (1, {"running": False})
    assert installation.processes() == []


def test_status_tells_what_scripts_need(shared: Installation) -> None:
    told = shared.status()
    assert told["pid"] == shared.daemon_pid()
    assert is_alive(told["mongod_pid"])
    assert told["version"] == __version__
    assert told["model"]["state"] in ("loading", "ready")
    assert told["rss_bytes"] > 10_000_000
    assert {"sessions", "uptime_s", "sidecar"} <= told.keys()
    assert told["text_index"]["state"] in ("loading", "being built", "ready", "being written anew")
    assert told["mongod_pid"] in shared.processes()
    environ = Path(f"/proc/{told['mongod_pid']}/environ").read_bytes()
    assert f"INFINITE_MEMORY_HOME={shared.home}".encode() in environ.split(b"\0")


def test_a_daemon_leaves_some_time_after_its_last_client(tmp_path: Path) -> None:
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_DAEMON__IDLE_EXIT_S": "1"}) as installation:
        client = installation.serve()
        assert client.ask("store_memory", content="tea")["status"] == "OK"
        pid = installation.daemon_pid()
        assert pid is not None
        with pytest.raises(subprocess.TimeoutExpired):
            client.process.wait(3)
        assert installation.daemon_pid() == pid, "it has a client, if a silent one"
        assert client.close() == 0
        until(lambda: not installation.processes(), "daemon and mongod are gone")
        assert installation.call("list_memories")["total"] == 1


def test_a_signal_stops_the_daemon_in_order(installation: Installation) -> None:
    assert installation.call("store_memory", content="tea")["status"] == "OK"
    for number in (signal.SIGTERM, signal.SIGINT):
        pid = installation.daemon_pid()
        assert pid is not None
        os.kill(pid, number)
        until(lambda: not installation.processes(), "daemon and mongod are gone")
        assert not (installation.home / "daemon.json").exists()
        assert installation.call("list_memories")["total"] == 1


def test_a_daemon_that_is_stopped_while_it_starts_after_a_crash_goes_at_once(installation: Installation) -> None:
    """MongoDB's start is under way, or about to be tried again, when it is to be stopped."""
    assert installation.call("store_memory", content="tea")["status"] == "OK"
    for tenths in range(2, 7) if LONG else (4,):
        pid = installation.daemon_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        starting = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "daemon", "run"],
            env=installation.environ, cwd=installation.home.parent, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            starting.wait(tenths / 10)
        starting.terminate()
        assert starting.wait(15) in (0, -signal.SIGTERM)
        assert installation.call("list_memories")["total"] == 1


def test_a_daemon_of_another_version_is_replaced(installation: Installation) -> None:
    client = installation.serve()
    assert client.ask("set_active_scope", scope="Global")["status"] == "OK"
    first = installation.daemon_pid()
    link = ipc.connect(installation.home, 5)
    assert link is not None
    with link:  # a client of another version greets
        link.sendall(json.dumps({"kind": "session", "version": "0.0.0", "protocol": ipc.PROTOCOL}).encode() + b"\n")
        assert json.loads(ipc.read_line(link)) == {"ok": False}
    until(lambda: installation.daemon_pid() != first, "the old daemon has gone")
    assert client.ask("ping")["pong"]
    assert installation.daemon_pid() not in (first, None)
    other = ipc.connect(installation.home, 5)
    assert other is not None
    with other:  # one that lost its daemon takes what there is, or two versions would replace each other for ever
        greeting = {"kind": "session", "version": "0.0.0", "protocol": ipc.PROTOCOL, "reconnect": True}
        other.sendall(json.dumps(greeting).encode() + b"\n")
        assert json.loads(ipc.read_line(other))["ok"] is True


def test_a_daemon_that_began_while_its_program_was_replaced_leaves_and_the_next_one_works(tmp_path: Path) -> None:
    need_parts()
    module = tmp_path / "program" / "infinite_memory" / "index" / "vector" / "files.py"
    shutil.copytree(ROOT / "infinite_memory", tmp_path / "program" / "infinite_memory")
    module.rename(away := tmp_path / "files.py")
    with Installation(tmp_path / "home", {"PYTHONPATH": str(tmp_path / "program")}, is_stopped=LONG) as installation:
        client = installation.serve()
        assert client.ask("store_memory", content="tea")["error_code"] == "INTERNAL_ERROR"
        first = installation.daemon_pid()
        away.rename(module)
        until(lambda: installation.daemon_pid() != first, "the daemon that cannot answer has gone")
        assert client.ask("store_memory", content="tea")["status"] == "OK"
        assert installation.daemon_pid() not in (first, None)


def test_a_daemon_setting_of_a_client_is_named_and_not_silently_ignored(shared: Installation) -> None:
    client = shared.serve("--set", "embedding.precision=int8")
    stats = client.ask("get_memory_stats")["stats"]
    [said] = stats["ignored_settings"]
    assert "embedding.precision = 'int8' is ignored" in said
    assert client.ask("help")["ignored_settings"] == [said]
    assert "embedding.precision = 'int8' is ignored" in client.errors()
    assert client.close() == 0


@pytest.mark.parametrize(
    ("contract", "variable", "value"),
    [("memory-server", "LOG_LEVEL", "debug"), ("palace", "RUST_LOG", "warn,store=debug")],
)
def test_a_log_level_of_another_contract_counts_for_who_starts_the_daemon_and_is_named_to_others(
    installation: Installation, contract: str, variable: str, value: str
) -> None:
    first = installation.serve("--contract", contract, environ={variable: value})
    assert first.initialize()["result"]
    assert first.errors() == ""
    log = installation.home / "logs" / "infinite-memory.log"
    assert first.rpc(1, "tools/list")["result"]
    assert "DEBUG" in log.read_text()
    assert "tools/list done in" in log.read_text()
    plain = installation.serve()
    assert plain.ask("ping")["pong"]
    assert plain.errors() == "", "it asks for no level of its own"
    later = installation.serve("--contract", contract, environ={variable: "error"})
    assert later.initialize()["result"]
    assert "log.level = 'ERROR' is ignored, the daemon runs with 'DEBUG'" in later.errors()
    assert log.exists()


def test_settings_of_a_session_are_the_clients_own(shared: Installation) -> None:
    tokyo = shared.serve("--scope", "Japan", environ={"INFINITE_MEMORY_TIME__ZONE": "Asia/Tokyo"})
    plain = shared.serve("--set", "limits.top_k=3")
    assert (tokyo.ask("help")["active_scope"], tokyo.ask("help")["timezone"]) == ("Japan", "Asia/Tokyo")
    assert (plain.ask("help")["active_scope"], plain.ask("help")["timezone"]) == ("Global", "UTC")
    assert tokyo.ask("store_memory", content="sake")["scope"] == "Japan"
    assert plain.ask("retrieve_memory", query="a", top_k=4)["error_code"] == "INVALID_REQUEST"
    assert tokyo.ask("retrieve_memory", query="a", top_k=4)["status"] == "OK"
    assert (tokyo.close(), plain.close()) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "mongodb.url=x"], "there is no setting mongodb.url; did you mean mongodb.uri?"),
        (["--set", "log.level=LOUD"], "log.level = 'LOUD' is not one of"),
        (["--set", "nonsense"], "SECTION.NAME=VALUE was expected"),
        (["--scope", "ALL"], "scopes.default = 'ALL' is not a scope's name"),
        (["--set", "time.zone=Mars/Olympus"], "time.zone = 'Mars/Olympus' is not an IANA time zone name"),
        (["--config", "missing.toml"], "there is no such file"),
    ],
)
def test_a_wrong_setting_is_refused_at_start_by_name(shared: Installation, arguments: list[str], said: str) -> None:
    done = shared.command("serve", *arguments, input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("how", [[], ["--in-process"]])
def test_a_wrong_zone_of_the_first_client_leaves_no_daemon_that_fails_all_others(
    installation: Installation, how: list[str]
) -> None:
    done = installation.command("serve", *how, "--set", "time.zone=Mars/Olympus", input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "time.zone = 'Mars/Olympus' is not an IANA time zone name" in done.stderr
    assert "Traceback" not in done.stderr
    assert installation.processes() == []


@pytest.mark.parametrize("how", [[], ["--in-process"]])
def test_what_the_model_cannot_give_is_refused_at_start_and_not_with_every_request(
    installation: Installation, how: list[str]
) -> None:
    done = installation.command("serve", *how, "--set", "embedding.truncate_dim=999", input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "embedding.truncate_dim: 999 is not between 1 and 384" in done.stderr
    assert "Traceback" not in done.stderr
    assert installation.processes() == []


def test_what_is_no_greeting_is_closed_without_a_word(shared: Installation) -> None:
    shared.status()  # starts nothing, but a session before this one did
    ours = {"kind": "session", "version": __version__, "protocol": ipc.PROTOCOL}
    hostile = (
        b"x" * 3_000_000, b"[" * 200_000 + b"\n", b"[]\n", b"\xff\n", b"{\n", b"",
        *(json.dumps(ours | wrong).encode() + b"\n" for wrong in (
            {"config_file": [1]}, {"config_file": "a\0b"}, {"environ": 5}, {"options": "x"}, {"contract": {}},
        )),
    )  # fmt: skip
    for said in hostile:
        link = ipc.connect(shared.home, 5)
        assert link is not None
        with link, contextlib.suppress(ConnectionError):
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
            while link.recv(65536):
                pass
    assert shared.status()["version"] == __version__
    log = (shared.home / "logs" / "infinite-memory.log").read_text()
    assert "Traceback" not in log
    assert "event=daemon_listens" in log


def test_a_client_that_starts_the_daemon_brings_its_own_daemon_settings(installation: Installation) -> None:
    client = installation.serve("--set", "daemon.transport=tcp")
    assert client.ask("store_memory", content="tea")["status"] == "OK"
    assert "ignored_settings" not in client.ask("help")
    record = installation.home / "daemon.json"
    assert {"port", "token"} <= json.loads(record.read_text()).keys()
    assert record.stat().st_mode & 0o777 == 0o600
    _only_the_token_opens_the_port(json.loads(record.read_text()))
    assert client.ask("ping")["pong"]
    pid = installation.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert client.ask("ping") is not None
    assert client.ask("list_memories")["total"] == 1


def _only_the_token_opens_the_port(record: dict[str, object]) -> None:
    for token in (b"wrong\n", b"\n", b'{"kind": "status"}\n'):
        with socket.create_connection(("127.0.0.1", int(str(record["port"]))), 5) as link:
            link.sendall(token + b'{"kind": "status"}\n')
            with contextlib.suppress(ConnectionResetError):
                assert link.recv(10) == b""


def test_a_second_daemon_run_is_refused_and_in_process_too(shared: Installation) -> None:
    environ = shared.environ
    done = subprocess.run(
        [sys.executable, "-m", "infinite_memory", "serve", "--in-process"],
        env=environ, capture_output=True, text=True, input="", check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "another process serves" in done.stderr


def test_a_daemon_that_hangs_is_not_called_stopped(shared: Installation) -> None:
    home = shared.home.parent / "frozen"
    home.mkdir()
    listening, address = ipc.listen(home, "unix")
    with listening, ipc.locked(ipc.lock_path(home), wait=False):
        ipc.write_record(home, {"pid": os.getpid()} | address)
        listening.settimeout(20)
        asking = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "daemon", "stop"],
            env=shared.environ | {"INFINITE_MEMORY_HOME": str(home)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        link, _ = listening.accept()
        link.close()
        said = asking.communicate(timeout=30)[1]
    assert asking.returncode == 1
    assert b"does not answer" in said


def test_in_process_answers_without_a_daemon(installation: Installation) -> None:
    client = installation.serve("--in-process")
    assert client.ask("store_memory", content="My favorite color is blue")["status"] == "OK"
    assert client.ask("retrieve_memory", query="which colour do I like")["results"][0]["text"].endswith("blue")
    assert installation.daemon_pid() is None
    assert client.close() == 0
    until(lambda: not installation.processes(), "mongod is gone")


def test_sigterm_in_process_ends_it_in_order(installation: Installation) -> None:
    client: Client = installation.serve("--in-process")
    assert client.ask("ping")["pong"]
    assert client.terminate() == 0
    until(lambda: not installation.processes(), "mongod is gone")


def test_a_daemon_whose_home_was_removed_goes(installation: Installation) -> None:
    """Found by a user who deleted the home first and stopped the daemon afterwards: nobody could reach it any more."""
    client = installation.serve()
    assert client.ask("list_memories")["status"] == "OK"
    pid = installation.daemon_pid()
    assert pid is not None
    assert client.close() == 0
    (installation.home / "daemon.json").unlink()
    until(lambda: not is_alive(pid), "the daemon has noticed and gone")
    assert installation.processes() == []


def test_every_command_tells_of_settings_that_the_running_daemon_has_otherwise(
    installation: Installation, tmp_path: Path
) -> None:
    assert installation.command("daemon", "start").returncode == 0
    secret = tmp_path / "secret"
    secret.write_text("long enough a passphrase\n", "utf-8")
    installation.environ["INFINITE_MEMORY_BACKUP__PASSPHRASE_FILE"] = str(secret)
    for command in (("call", "ping"), ("backup",), ("stats",), ("daemon", "start")):
        done = installation.command(*command)
        assert done.returncode == (2 if command == ("backup",) else 0)
        assert "backup.passphrase_file" in done.stderr, command
    assert list((installation.home / "backups").iterdir()) == []  # it would not have been locked
    assert installation.command("daemon", "stop").returncode == 0
    assert "encrypted" in installation.command("backup").stdout
