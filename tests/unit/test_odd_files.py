"""What stands in the place of a small file of the home and is none: it is refused or passed over in clear words, and nobody waits."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infinite_memory.backup.encryption import find_secret
from infinite_memory.config import load_config
from infinite_memory.daemon import ipc
from infinite_memory.errors import BackupError, ConfigError
from infinite_memory.hooks.control import PAUSED, read_control
from infinite_memory.hooks.files import read_json, set_aside
from infinite_memory.llm.base import ChatMessage, Role
from infinite_memory.llm.http_clients import of_openai
from infinite_memory.logging_setup import open_log
from infinite_memory.paths import Home, unusable
from infinite_memory.platform_files import make_folder, read_regular_text
from infinite_memory.settings import BackupSettings, LogSettings
from infinite_memory.transports.http.owner_token import OwnerToken

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, links and modes are POSIX")

PATIENCE_S = 20

ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a device": lambda file: file.symlink_to("/dev/zero"),
    "a link to itself": lambda file: file.symlink_to(file.name),
    "random bytes": lambda file: file.write_bytes(bytes(range(256)) * 8),
    "a file that is too large": lambda file: os.truncate(_made(file), 1 << 33),
}


def _made(file: Path) -> Path:
    file.touch()
    return file


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Fail where something waits for ever."""
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("odd", ODD)
def test_settings_that_are_no_file_are_refused_with_the_reason(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "config.toml"
    ODD[odd](file)
    with patience(), pytest.raises(ConfigError, match=r"config\.toml: ") as refused:
        load_config(file, {}, checkout_file=tmp_path / "none")
    assert "Errno" not in str(refused.value)


def test_settings_whose_link_leads_nowhere_are_not_taken_for_none(tmp_path: Path) -> None:
    """Such as a folder of settings that is not mounted yet: the daemon would open an empty memory of its own."""
    file = tmp_path / "config.toml"
    file.symlink_to(tmp_path / "dotfiles" / "memory.toml")
    with pytest.raises(ConfigError, match=r"config\.toml: it is a link to .*memory\.toml, which is not there"):
        load_config(file, {}, checkout_file=tmp_path / "none")
    file.unlink()
    load_config(file, {}, checkout_file=tmp_path / "none")


@pytest.mark.parametrize("odd", ODD)
def test_a_token_that_is_no_file_is_refused_with_the_reason(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "http.token"
    ODD[odd](file)
    with patience(), pytest.raises(ConfigError, match=r"http\.token"):
        OwnerToken(file).read()


@pytest.mark.parametrize("odd", ODD)
def test_a_secret_of_backups_that_is_no_file_is_refused_with_the_reason(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "secret"
    ODD[odd](file)
    with patience():
        with pytest.raises(BackupError, match=r"backup\.passphrase_file"):
            find_secret(BackupSettings(passphrase_file=str(file)))
        if odd != "random bytes":  # which are a good key
            with pytest.raises(BackupError, match=r"backup\.key_file"):
                find_secret(BackupSettings(key_file=str(file)))


@pytest.mark.parametrize("odd", ODD)
async def test_the_key_of_a_model_that_is_no_file_is_refused_with_the_reason(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "key"
    ODD[odd](file)
    model = of_openai("tiny", "http://127.0.0.1:1/v1", file, 1.0)
    with patience(), pytest.raises(ConfigError, match=r"model\.key_file"):
        await model.complete("", [ChatMessage(Role.USER, "hello")], max_tokens=5)


@pytest.mark.parametrize("odd", ODD)
def test_a_record_that_is_no_file_leads_nowhere_and_is_written_anew(tmp_path: Path, odd: str) -> None:
    ODD[odd](ipc.record_path(tmp_path))
    ODD[odd](ipc.pid_path(tmp_path))
    with patience():
        assert ipc.read_record(tmp_path) is None
        assert ipc.connect(tmp_path, 1.0) is None
        ipc.remove_stale_record(tmp_path)
        assert not ipc.record_path(tmp_path).is_symlink()
        assert not ipc.record_path(tmp_path).exists()
        ipc.write_record(tmp_path, {"pid": 7})
    assert ipc.read_record(tmp_path) == {"pid": 7}


@pytest.mark.parametrize("odd", [one for one in ODD if one != "a folder"])
def test_a_daemon_that_runs_mends_its_record(tmp_path: Path, odd: str) -> None:
    ipc.write_record(tmp_path, {"pid": 7})
    ipc.record_path(tmp_path).unlink()
    ODD[odd](ipc.record_path(tmp_path))
    with patience():
        ipc.mend_record(tmp_path, {"pid": 7})
    assert ipc.read_record(tmp_path) == {"pid": 7}


@pytest.mark.parametrize("odd", ODD)
def test_files_of_hooks_that_are_no_files_keep_nobody_waiting(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "hooks" / "control.json"
    file.parent.mkdir()
    ODD[odd](file)
    with patience():
        assert read_json(file) is None
        if odd != "a link to itself":
            assert read_control(tmp_path).state == PAUSED
        set_aside(file)


@pytest.mark.parametrize("odd", ["a pipe", "a folder", "a device"])
def test_a_log_that_is_no_file_is_named(tmp_path: Path, odd: str) -> None:
    home = Home(tmp_path, explicit=True)
    home.make()
    ODD[odd](home.logs / "infinite-memory.log")
    before = logging.getLogger("infinite_memory").handlers
    with patience(), pytest.raises(OSError, match="not a regular file") as refused:
        open_log(home, LogSettings())
    assert logging.getLogger("infinite_memory").handlers == before
    said = unusable(tmp_path, refused.value)
    assert said == f"the home {tmp_path} cannot be used: 'logs/infinite-memory.log' in it: it is not a regular file"


def test_a_text_is_read_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"\xef\xbb\xbf12345")
    assert read_regular_text(file, limit_bytes=8) == "12345"
    with pytest.raises(OSError, match="larger than 7 bytes"):
        read_regular_text(file, limit_bytes=7)


def test_folders_are_the_users_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b" / "c")
        make_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert {one.stat().st_mode & 0o777 for one in tmp_path.rglob("*")} == {0o700}
