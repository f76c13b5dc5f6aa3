"""The MongoDB server of our own: one for a home, for this user alone, and never lost sight of."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pymongo
import pytest
from bson import Timestamp

from infinite_memory.errors import StoreError, StoreUnavailableError
from infinite_memory.mongod import first_start, process, server, wire
from infinite_memory.mongod import log as mongod_log
from infinite_memory.mongod.server import LocalMongo
from infinite_memory.paths import place_of_socket
from infinite_memory.store.mongo.store import MongoStore
from tests.processes import LONG

ROOT = Path(__file__).parents[2]

OWNER = """\
import asyncio, pathlib, sys
from infinite_memory.mongod.server import LocalMongo
async def main():
    home = pathlib.Path(sys.argv[1])
    mongo = LocalMongo(home, log_dir=home / "logs")
    await mongo.start()
    print(mongo.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def make(home: Path, **options: object) -> LocalMongo:
    return LocalMongo(home, log_dir=home / "logs", **options)  # type: ignore[arg-type]


async def start_owner(home: Path) -> tuple[asyncio.subprocess.Process, int]:
    """Start another process that owns the server of a home; give it and the server's process id."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(home), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    return owner, int(await owner.stdout.readline())


async def until_gone(pid: int) -> None:
    while Path(f"/proc/{pid}").exists():
        await asyncio.sleep(0.02)


async def store_answers(uri: str) -> None:
    store = MongoStore(uri)
    try:
        await store.connect()
        assert (await store.info()).deployment == "replica set"
    finally:
        await store.close()


async def test_a_server_starts_in_a_new_home_and_again_and_after_kill(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        mongo = make(tmp_path)
        await store_answers(await mongo.start())
        assert mongo.pid is not None
        if number == signal.SIGKILL:
            os.kill(mongo.pid, number)
            await store_answers(await mongo.ensure())
        await mongo.stop()
        await mongo.stop()
        assert mongo.pid is None


async def test_a_server_that_dies_is_started_again(tmp_path: Path) -> None:
    mongo = make(tmp_path)
    try:
        await mongo.start()
        killed = mongo.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        while mongo.pid in (None, killed):
            await asyncio.sleep(0.02)
        await store_answers(await mongo.ensure())
    finally:
        await mongo.stop()


async def test_no_other_user_can_reach_it(tmp_path: Path) -> None:
    mongo = make(tmp_path / "home")
    try:
        await mongo.start()
        pid = mongo.pid
        assert pid is not None
        data = tmp_path / "home" / "mongodb"
        for private in (data, data / "mongod.sock"):
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
        inodes = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
        listening = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        listening += [line.split() for line in Path(f"/proc/{pid}/net/tcp6").read_text().splitlines()[1:]]
        assert not {f"socket:[{fields[9]}]" for fields in listening} & inodes
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert f"INFINITE_MEMORY_HOME={tmp_path / 'home'}".encode() in environment
        assert os.getsid(pid) == pid
    finally:
        await mongo.stop()


async def test_a_home_whose_path_is_too_long_for_a_socket_works(tmp_path: Path) -> None:
    home = tmp_path / ("long " * 20) / ("name" * 20)
    mongo = make(home)
    try:
        uri = await mongo.start()
        await store_answers(uri)
        assert (home / "mongodb" / "WiredTiger").exists()
    finally:
        await mongo.stop()
    assert not Path(unquote(uri.removeprefix("mongodb://").partition("/")[0])).parent.exists(), "nothing is left behind"


async def test_a_socket_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Path(tempfile.mkdtemp(prefix="im-run-", dir="/tmp"))  # short, as the system's own is
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    mongo = make(tmp_path / ("x" * 120))
    folder = place_of_socket(tmp_path / ("x" * 120) / "mongodb", server.SOCKET_NAME)
    assert folder.is_relative_to(runtime)
    folder.parent.mkdir()
    folder.symlink_to(tmp_path)
    try:
        with pytest.raises(StoreUnavailableError, match="folder of this user"):
            await mongo.start()
    finally:
        shutil.rmtree(runtime)


async def test_a_path_that_is_too_long_everywhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(_folder: Path, _name: str) -> Path:
        raise OSError(36, "no path is short enough")

    monkeypatch.setattr(server, "place_of_socket", nowhere)
    with pytest.raises(StoreUnavailableError, match="cannot be started: no path is short enough"):
        await make(tmp_path).start()


async def test_a_home_that_was_moved_works(tmp_path: Path) -> None:
    for home in (tmp_path / "old", tmp_path / "new"):
        mongo = make(home)
        await store_answers(await mongo.start())
        await mongo.stop()
        if home.name == "old":
            home.rename(tmp_path / "new")


async def test_two_processes_of_one_home_use_one_server_and_take_over(tmp_path: Path) -> None:
    owner, pid = await start_owner(tmp_path)
    ours = make(tmp_path)
    try:
        await store_answers(await ours.start())
        assert ours.pid == pid
        await ours.stop()
        assert Path(f"/proc/{pid}").exists()
        owner.kill()
        await owner.wait()
        await store_answers(await ours.ensure())
        assert ours.pid not in (None, pid)
    finally:
        await ours.stop()


async def test_a_server_does_not_outlive_its_process(tmp_path: Path) -> None:
    owner, pid = await start_owner(tmp_path)
    owner.kill()
    await owner.wait()
    await until_gone(pid)


async def test_a_server_left_by_a_crash_is_stopped_and_replaced(tmp_path: Path) -> None:
    first = make(tmp_path)
    await first.start()
    assert first.pid is not None
    # What a crash does, without the kernel's help that ends the server too: the lock goes, the server stays.
    assert first._supervisor is not None
    first._supervisor.cancel()
    assert first._owner_fd is not None
    os.close(first._owner_fd)
    second = make(tmp_path)
    try:
        await store_answers(await second.start())
        assert second.pid not in (None, first.pid)
        assert first.pid is None
    finally:
        await second.stop()


async def test_starting_twice_at_once_starts_one(tmp_path: Path) -> None:
    mongo, other = make(tmp_path), make(tmp_path)
    try:
        assert len(set(await asyncio.gather(mongo.start(), mongo.start(), other.start(), mongo.ensure()))) == 1
        assert mongo.pid == other.pid
    finally:
        await mongo.stop()
        await other.stop()


async def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "mongodb").mkdir()
    (tmp_path / "mongodb" / "WiredTiger.turtle").write_text("nonsense")
    (tmp_path / "mongodb" / "WiredTiger").write_text("nonsense")
    mongo = make(tmp_path)
    with pytest.raises(StoreUnavailableError, match="MongoDB ended with"):
        await mongo.start()
    await mongo.stop()
    no_mongod = tmp_path / "mongod"
    no_mongod.write_text("#!/bin/sh\necho this is no MongoDB >&2\nexit 3\n")
    no_mongod.chmod(0o700)
    other = make(tmp_path / "other", binary=no_mongod)
    with pytest.raises(StoreUnavailableError, match=r"ended with exit code 3.*this is no MongoDB"):
        await other.start()
    await other.stop()


def cut_short(home: Path) -> Path:
    """Make a data folder of which the first start was cut short and that no server opens; give it."""
    data = home / "mongodb"
    data.mkdir(parents=True)
    for name in ("WiredTiger", "WiredTiger.turtle", first_start.MARK_NAME):
        (data / name).write_text("nonsense")
    return data


async def test_a_first_start_that_was_cut_short_begins_again(tmp_path: Path) -> None:
    data = cut_short(tmp_path)
    mongo = make(tmp_path)
    await store_answers(await mongo.start())
    assert not (data / first_start.MARK_NAME).exists()
    assert (tmp_path / first_start.ASIDE_NAME / "WiredTiger").read_text() == "nonsense"
    await mongo.stop()
    (data / "WiredTiger.turtle").write_text("nonsense")  # it has taken writes since: it is never emptied again
    again = make(tmp_path)
    with pytest.raises(StoreUnavailableError, match="MongoDB ended with"):
        await again.start()
    await again.stop()
    assert (data / "WiredTiger.wt").exists()


async def test_others_wait_until_the_first_start_is_over(tmp_path: Path) -> None:
    """Until then its owner may begin it again, and what they wrote would be gone."""

    owner, pid = await start_owner(tmp_path)
    mark = tmp_path / "mongodb" / first_start.MARK_NAME
    mark.touch()
    other = make(tmp_path)
    joining = asyncio.create_task(other.start())
    await asyncio.sleep(0.5)
    assert not joining.done()
    mark.unlink()
    await joining
    assert other.pid == pid
    owner.terminate()
    await owner.wait()
    await until_gone(pid)
    await other.stop()


@pytest.mark.parametrize("ms", range(0, 40, 1 if LONG else 15))
async def test_a_server_that_is_ended_while_it_makes_itself_a_replica_set_starts_again(tmp_path: Path, ms: int) -> None:
    """It refused its folder for ever: it had a log of operations, and no version of its format."""

    mongo = make(tmp_path)
    starting = asyncio.create_task(mongo.start())
    written = tmp_path / "logs" / "mongod.log"
    while not written.exists() or "Waiting for connections" not in written.read_text():
        await asyncio.sleep(0)
    await asyncio.sleep(ms / 2000)
    await mongo.stop()
    with contextlib.suppress(StoreUnavailableError):
        await starting
    again = make(tmp_path)
    await store_answers(await again.start())
    await again.stop()


async def test_a_server_that_keeps_dying_rests_longer_each_time(tmp_path: Path) -> None:
    """On a full disk it was started every 1.4 s, for as long as somebody asked."""
    starts = tmp_path / "starts"
    dying = tmp_path / "mongod"
    dying.write_text(f"#!/bin/sh\necho started >> {starts}\necho no room >&2\nexit 14\n")
    dying.chmod(0o700)

    mongo = make(tmp_path / "home", binary=dying)
    for _ in range(5):
        with pytest.raises(StoreUnavailableError, match=r"ended with exit code 14.*no room"):
            await mongo.ensure()
    for _ in range(20):
        with pytest.raises(StoreUnavailableError, match=r"died 5 times in a row and is started again in \d s.*no room"):
            await mongo.ensure()
    assert len(starts.read_text().splitlines()) == 5
    await mongo.stop()
    with pytest.raises(StoreUnavailableError, match="exit code 14"):  # it was stopped, so this is a first start
        await mongo.start()
    await mongo.stop()


async def test_a_frozen_server_is_killed_when_it_does_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", 0.5)

    mongo = make(tmp_path)
    await mongo.start()
    pid = mongo.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await mongo.stop()
    await until_gone(pid)


async def test_its_log_stays_small_and_holds_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongod_log, "LIMIT_BYTES", 2000)
    monkeypatch.setattr(mongod_log, "CHECK_S", 0.0)

    mongo = make(tmp_path)
    logs = tmp_path / "logs"
    try:
        uri = await mongo.start()
        while not (logs / "mongod.log.1").exists():
            await asyncio.sleep(0.02)
        store = MongoStore(uri)
        await store.connect()
        await store.set_meta("secret-key", {"secret": "secret-value"})
        await store.close()
    finally:
        await mongo.stop()
    assert not any(b"secret" in log.read_bytes() for log in logs.iterdir())
    assert {log.name for log in logs.iterdir()} <= {"mongod.log", "mongod.log.1", "mongod.out"}


async def test_two_homes_have_two_servers(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    try:
        assert await one.start() != await two.start()
        assert one.pid != two.pid
    finally:
        await one.stop()
        await two.stop()


def test_importing_the_interface_imports_no_driver() -> None:
    code = (
        "import sys, infinite_memory.store.base, infinite_memory.mongod.server;"
        "sys.exit(any(name.split('.')[0] in ('pymongo', 'bson', 'motor', 'numpy') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


async def test_a_server_is_asked_by_hand(tmp_path: Path) -> None:
    mongo = make(tmp_path)
    try:
        await mongo.start()
        socket_file = tmp_path / "mongodb" / "mongod.sock"
        reply = await wire.ask(socket_file, {"hello": 1})
        assert reply.is_true("isWritablePrimary")
        assert reply.text("me") == server.MEMBER
        refused = await wire.ask(socket_file, {"noSuchCommand": {"a": [1, True]}})
        assert "noSuchCommand" in refused.text("errmsg")
    finally:
        await mongo.stop()
    with pytest.raises(OSError):
        await wire.ask(tmp_path / "mongodb" / "mongod.sock", {"hello": 1})


def advance_clock(uri: str) -> None:
    """Have a server take over a time that is two years ahead, as one has that wrote something while its machine's clock was ahead."""
    ahead = Timestamp(int(time.time()) + 2 * 366 * 86_400, 1)
    with pymongo.MongoClient[dict[str, Any]](uri) as client, client.start_session() as session:
        session.advance_cluster_time({"clusterTime": ahead, "signature": {"hash": bytes(20), "keyId": 0}})
        client["of"]["years"].insert_one({}, session=session)


async def test_a_clock_that_was_ahead_by_years_when_something_was_written_shuts_no_memory(tmp_path: Path) -> None:
    mongo = make(tmp_path)
    try:
        await asyncio.to_thread(advance_clock, await mongo.start())
        await store_answers(await mongo.start())
        await mongo.stop()
        mongo = make(tmp_path)
        await store_answers(await mongo.start())
    finally:
        await mongo.stop()


async def test_where_a_clock_that_was_ahead_shut_a_server_of_ones_own_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mongo = make(tmp_path)
    try:
        await asyncio.to_thread(advance_clock, await mongo.start())
        await mongo.stop()
        monkeypatch.setattr(server, "_ANY_CLOCK", "maxAcceptableLogicalClockDriftSecs=31536000")
        mongo = make(tmp_path)
        uri = await mongo.start()
        with pytest.raises(StoreError, match="start mongod with --setParameter maxAcceptableLogicalClockDriftSecs"):
            await store_answers(uri)
    finally:
        await mongo.stop()
