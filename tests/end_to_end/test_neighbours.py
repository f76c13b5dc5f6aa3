"""What another user of this machine can do to a memory: nothing. The neighbour is a real second user."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from infinite_memory import Memory
from infinite_memory.daemon import ipc
from infinite_memory.paths import place_of_socket
from infinite_memory.sdk.errors import UntrustedError
from tests.http_client import Api, make_token, owner, refused, serving
from tests.processes import LONG, Installation, is_alive, need_parts, until
from tests.second_user import HOLD, LISTEN, NAME, Neighbour, need_second_user, run_as_neighbour, shared_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="users are POSIX")

HALF = "POST /api/v1/memories HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n"
BODY = HALF + "Content-Length: 100000\\r\\nContent-Type: application/json\\r\\n\\r\\n{"
OPEN_BODY = "POST /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Length: 100000000\\r\\n\\r\\n{"


@pytest.fixture(scope="module", autouse=True)
def _needs() -> None:
    need_parts()
    need_second_user()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon listens at two ports, one for clients and one for HTTP."""
    path = tmp_path_factory.mktemp("neighbours") / "home"
    environ = {
        "INFINITE_MEMORY_HTTP__PORT": "0",
        "INFINITE_MEMORY_HTTP__RATE": "600/minute",
        "INFINITE_MEMORY_DAEMON__TRANSPORT": "tcp",
    }
    with Installation(path, environ, is_stopped=LONG) as one:
        yield one


@pytest.fixture(scope="module")
def api(home: Installation) -> Iterator[Api]:
    with serving(home) as web:
        yield owner(home, web)


# who is at the other end


def test_a_socket_folder_that_a_neighbour_made_first_is_told_nothing(tmp_path: Path) -> None:
    """Also where a daemon that crashed left a record that names it."""
    with shared_folder() as shared:
        home = tmp_path / ("x" * 60) / ("y" * 60)
        home.mkdir(parents=True)
        environ = {"XDG_RUNTIME_DIR": str(shared), "TMPDIR": str(shared)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_RUNTIME_DIR", str(shared))
            taken = place_of_socket(home, ipc.SOCKET_NAME) / ipc.SOCKET_NAME
        with Neighbour(LISTEN, "unix", taken, '{"ok": true}\\n') as neighbour:
            ipc.write_record(home, {"pid": 1, "version": "0.1.0", "socket": str(taken)})
            with Installation(home, environ) as one:
                assert one.call("store_memory", content="the vault is 4711")["status"] == "OK"
                used = Path(json.loads((home / "daemon.json").read_text())["socket"])
                assert used.parent != taken.parent
            assert neighbour.end().strip() == ""


def test_a_runtime_folder_of_a_neighbour_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo` keeps XDG_RUNTIME_DIR: its owner could exchange whatever is made in it."""
    with shared_folder() as shared:
        run_as_neighbour("import os, sys; os.mkdir(sys.argv[1], 0o777); os.chmod(sys.argv[1], 0o777)", shared / "run")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared / "run"))
        assert not place_of_socket(tmp_path / ("x" * 120), "daemon.sock").is_relative_to(shared)
        open_to_all = shared / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)  # without the sticky bit
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(open_to_all))
        assert not place_of_socket(tmp_path / ("x" * 120), "daemon.sock").is_relative_to(shared)


def test_a_home_that_a_neighbour_made_is_refused(tmp_path: Path) -> None:
    with shared_folder() as shared:
        run_as_neighbour("import os, sys; os.mkdir(sys.argv[1], 0o777); os.chmod(sys.argv[1], 0o777)", shared / "home")
        one = Installation(shared / "home")
        for command in (("call", "ping", "{}"), ("daemon", "run"), ("doctor",), ("backup",)):
            done = one.command(*command)
            assert done.returncode != 0, command
            assert f"another user ({NAME})" in done.stdout + done.stderr, command
        assert list((shared / "home").iterdir()) == []


PLANTED = {
    "a token that they know": "open('http.token', 'w').write('x' * 43 + '\\n')",
    "settings": "open('config.toml', 'w').write('[http]\\nport = 0\\n')",
    "a link": "os.mkdir('logs'); os.chmod('logs', 0o777); os.symlink(sys.argv[1] + '/../lured', 'logs/daemon.out')",
    "a folder for the database": "os.mkdir('mongodb'); os.chmod('mongodb', 0o777)",
    "a link to a folder": "os.symlink(sys.argv[1] + '/..', 'sidecars')",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_a_neighbour_planted_in_a_home_that_was_open_to_all_is_not_used(planted: str) -> None:
    with shared_folder() as shared:
        home = shared / "home"
        home.mkdir()
        home.chmod(0o777)  # by a umask of 000, or a folder that a group shares
        run_as_neighbour(f"import os, sys; os.chdir(sys.argv[1]); {PLANTED[planted]}", home)
        before = sorted(home.rglob("*"))
        one = Installation(home)
        for command in (("remember", "the vault is 4711"), ("daemon", "run"), ("doctor",), ("serve", "--in-process")):
            done = one.command(*command)
            assert done.returncode != 0, command
            assert f"in it belongs to another user ({NAME})" in done.stdout + done.stderr, command
        assert sorted(home.rglob("*")) == before
        assert not (shared / "lured").exists()
        if not LONG and planted != "settings":
            return  # once it is removed all homes are alike
        for part in home.iterdir():
            shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()
        with one:
            assert one.command("remember", "the vault is 4711").returncode == 0
        assert home.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_backups_that_a_neighbour_owns_is_used() -> None:
    """Whoever writes there can withhold backups and nothing more, which is said."""
    with shared_folder() as shared:
        home = shared / "home"
        home.mkdir()
        home.chmod(0o777)
        run_as_neighbour("import os, sys; os.mkdir(sys.argv[1]); os.chmod(sys.argv[1], 0o777)", home / "backups")
        with Installation(home) as one:
            assert one.command("backup").returncode == 0


def test_a_record_of_a_neighbour_leads_nowhere() -> None:
    """Even where somebody opened the home to all."""
    with (
        shared_folder() as shared,
        tempfile.TemporaryDirectory(dir=shared.parent) as home,
        Neighbour(LISTEN, "unix", shared / "s" / "d.sock", "") as neighbour,
    ):
        record = json.dumps({"pid": 1, "version": "0.1.0", "socket": str(shared / "s" / "d.sock")})
        run_as_neighbour("import sys; open(sys.argv[1], 'w').write(sys.argv[2])", shared / "record", record)
        (shared / "record").rename(Path(home, "daemon.json"))
        assert ipc.read_record(Path(home)) is None
        ipc.write_record(Path(home), json.loads(record))
        assert ipc.connect(Path(home), 1.0) is None
        assert neighbour.end().strip() == ""


def test_a_neighbour_who_reaches_the_daemons_socket_is_not_answered() -> None:
    """The folder's mode keeps others out; where somebody opened it, the daemon looks who comes."""
    with shared_folder() as shared, Installation(shared / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}) as one:
        assert one.call("ping")["pong"]
        until(lambda: "socket" in one.status().get("http", {}), "HTTP has its socket")
        for opened in (one.home, one.home / "daemon.sock", Path(one.status()["http"]["socket"])):
            opened.chmod(0o777)
        told = run_as_neighbour(
            "import socket, sys\n"
            "for path, said in zip(sys.argv[1::2], sys.argv[2::2]):\n"
            "    link = socket.socket(socket.AF_UNIX); link.settimeout(30); link.connect(path)\n"
            "    try:\n"
            "        link.sendall(said.encode()); print(link.recv(1000))\n"
            "    except ConnectionError: print(b'')\n",
            one.home / "daemon.sock", '{"kind": "status"}\n',
            one.status()["http"]["socket"], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )  # fmt: skip
        assert told.split() == ["b''", "b''"]
        assert one.call("ping")["pong"]


def test_a_port_that_a_neighbour_has_after_a_crash_is_told_nothing(tmp_path: Path) -> None:
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_DAEMON__TRANSPORT": "tcp"}) as one:
        assert one.call("ping")["pong"]
        record = ipc.read_record(one.home)
        pid = one.daemon_pid()
        assert record is not None
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid), "it is dead")
        until(lambda: not ipc.is_held(one.home / "daemon.lock"), "its lock is free")
        lie = '{"nonce": "' + "0" * 64 + '", "proof": "' + "0" * 64 + '", "ok": true}\\n'
        with Neighbour(LISTEN, "tcp", record["port"], lie) as neighbour:
            assert ipc.connect(one.home, 1.0) is None
            # As when the next daemon is just starting: it holds the lock and has not written its record.
            with ipc.locked(ipc.lock_path(one.home), wait=False):
                assert ipc.connect(one.home, 1.0) is None
            assert one.call("store_memory", content="the vault is 4711")["status"] == "OK"
            heard = neighbour.end()
        assert record["token"] not in heard
        assert all(set(json.loads(line)) == {"challenge", "nonce"} for line in heard.splitlines() if line), heard


def test_what_the_daemon_says_to_a_stranger_at_its_port_proves_nothing_to_others(home: Installation, api: Api) -> None:
    record = ipc.read_record(home.home)
    assert record is not None
    told = run_as_neighbour(
        "import json, socket, sys\n"
        "for first in ('\\n', '[]\\n', '{}\\n', 'x' * 70000, json.dumps({'kind': 'status'}) + '\\n', sys.argv[2] + '\\n'):\n"
        "    link = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); link.settimeout(30)\n"
        "    try:\n"
        "        link.sendall(first.encode()); said = link.recv(1000)\n"
        "        if said: link.sendall(json.loads(said)['proof'].encode() + b'\\n{\"kind\": \"status\"}\\n')\n"
        "        print(said and link.recv(1000))\n"
        "    except ConnectionError: print(b'')\n",
        record["port"], json.dumps({"challenge": 1, "nonce": "0" * 64}),
    )  # fmt: skip
    assert set(told.split()) == {"b''"}, told


def test_an_http_port_that_a_neighbour_has_first_is_shown_no_token(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reply = "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}"
    with (
        Neighbour(LISTEN, "tcp", port, reply) as neighbour,
        Installation(tmp_path / "home", {"INFINITE_MEMORY_HTTP__PORT": str(port)}) as one,
    ):
        assert one.command("daemon", "start").returncode == 0
        assert "in use" in one.status()["http"]["error"]
        assert one.command("doctor").returncode in (0, 1)
        token = "im_0123456789ab_" + "s" * 43
        for name in ("127.0.0.1", "localhost"):
            with Memory(url=f"http://{name}:{port}", token=token) as memory, pytest.raises(UntrustedError):
                memory.add("the vault is 4711")
        heard = neighbour.end()
    assert "s" * 10 not in heard
    assert "vault" not in heard
    assert "/api/v1/proof" in heard


def test_the_sdk_comes_to_its_own_daemon_by_a_socket_that_nobody_else_can_have(home: Installation, api: Api) -> None:
    about = home.status()["http"]
    assert Path(about["socket"]).stat().st_mode & 0o777 == 0o600
    code = (
        "import sys; from infinite_memory import Memory; from infinite_memory.sdk.errors import ApiError\n"
        "good, wrong = (Memory(url=sys.argv[1], token=one) for one in sys.argv[2:])\n"
        "good.add('by the socket')\n"
        "try: wrong.get('0' * 24)\n"
        "except ApiError as exc: print(type(exc).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, about["url"], str(api.token), "not-a-token"],
        env=home.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "DeniedError", done.stderr  # by the port it would not have been shown
    made = make_token(home, api.web, "--scope", "Desk")
    with Memory(url=about["url"], token=made.token) as memory:  # another home than ours: by the port, after a proof
        assert memory.add("by the port").scope == "Desk"
    with Memory(url=about["url"], token=f"im_{'0' * 12}_{'x' * 43}") as memory, pytest.raises(UntrustedError):
        memory.add("tea")


# who says nothing, and who says too much


@pytest.mark.parametrize("said", ["", HALF, BODY, OPEN_BODY, "GET /healthz HTTP/1.1\\r\\n"])
def test_a_thousand_half_sent_requests_hold_nobody_up(home: Installation, api: Api, said: str) -> None:
    port = httpx2.URL(home.status()["http"]["url"]).port
    output = home.home / "logs" / "daemon.out"
    before = output.stat().st_size
    pid = home.daemon_pid()
    client = home.serve()
    with Neighbour(HOLD, port, 1021, said):
        late = home.serve()
        for one in (client, late):
            assert one.ask("store_memory", content="tea")["status"] == "OK"
        with httpx2.Client(base_url=str(api.web.base_url), timeout=30) as web:
            assert Api(web, api.token).get("stats")
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 700, "they are fewer than files may be open"
    for one in (client, late):
        one.close()
    assert home.daemon_pid() == pid
    assert output.stat().st_size - before < 20_000


def test_a_thousand_connections_to_the_daemons_port_that_say_nothing_hold_nobody_up(
    home: Installation, api: Api
) -> None:
    record = ipc.read_record(home.home)
    assert record is not None
    pid = home.daemon_pid()
    with Neighbour(HOLD, record["port"], 1000, ""):
        late = home.serve()
        assert late.ask("store_memory", content="tea")["status"] == "OK"
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 500
        assert late.close() == 0
    assert home.daemon_pid() == pid


def test_a_connection_that_sends_too_slowly_is_closed(api: Api) -> None:
    """A request's head has ten seconds, however often a byte of it comes."""
    port = api.web.base_url.port
    told = run_as_neighbour(
        "import socket, sys, time\n"
        "link = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "began = time.monotonic()\n"
        "try:\n"
        "    link.sendall(b'GET /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n')\n"
        "    while time.monotonic() - began < 50: link.sendall(b'X: y\\r\\n'); time.sleep(0.5)\n"
        "    print('open')\n"
        "except OSError: print('closed')\n",
        port,
    )  # fmt: skip
    assert told.strip() == "closed"


def test_requests_without_a_token_use_up_nobody_elses_rate(tmp_path: Path) -> None:
    settings = {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_HTTP__RATE": "600/minute"}
    with (
        Installation(tmp_path / "home", settings) as home,
        serving(home) as web,
    ):  # in which nobody has asked for anything yet
        use_up_rate(home, owner(home, web))


def use_up_rate(home: Installation, api: Api) -> None:
    fresh = make_token(home, api.web)  # which nobody has used yet
    guess = f"im_{'0' * 12}_{'x' * 43}"
    told = run_as_neighbour(
        "import http.client, sys\n"
        "link = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=60)\n"
        "seen = {}\n"
        "for number in range(700):\n"
        "    sent = {} if number % 50 else {'Authorization': 'Bearer ' + sys.argv[2]}\n"
        "    link.request('GET', ('/mcp', '/api/v1/stats')[number % 2], headers=sent)\n"
        "    answer = link.getresponse(); answer.read()\n"
        "    seen[answer.status] = seen.get(answer.status, 0) + 1\n"
        "print(seen)\n",
        api.web.base_url.port, guess,
    )  # fmt: skip
    assert re.fullmatch(r"\{401: \d+, 429: \d+\}", told.strip()), told
    assert refused(Api(api.web, None).ask("GET", "stats"))[0] == 429
    for one in (api, fresh):
        assert one.get("stats")


def test_a_token_that_holds_all_connections_gives_way_to_others(tmp_path: Path) -> None:
    settings = {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_HTTP__CONNECTIONS": "16"}
    with Installation(tmp_path / "home", settings) as home, serving(home) as web, contextlib.ExitStack() as held:
        api = owner(home, web)
        greedy = make_token(home, web)
        for _ in range(40):
            link = http.client.HTTPConnection("127.0.0.1", web.base_url.port, timeout=60)
            held.callback(link.close)
            link.request("GET", "/api/v1/stats", headers={"Authorization": f"Bearer {greedy.token}"})
            assert link.getresponse().read()
        assert api.get("stats")
        with httpx2.Client(base_url=web.base_url, timeout=60) as newcomer:
            assert Api(newcomer, api.token).get("stats")


def test_a_daemon_without_descriptors_writes_little_and_goes_on(home: Installation, api: Api) -> None:
    resource = pytest.importorskip("resource")
    pid = home.daemon_pid()
    assert pid is not None
    output = home.home / "logs" / "daemon.out"
    before = output.stat().st_size
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{pid}/fd").iterdir())) + 4, hard))
    try:
        with Neighbour(HOLD, api.web.base_url.port, 200, HALF), contextlib.suppress(httpx2.HTTPError):
            api.web.get("/healthz", timeout=3)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    until(lambda: home.call("ping").get("pong"), "clients are answered again")
    assert home.daemon_pid() == pid
    assert output.stat().st_size - before < 20_000
