"""Backups that somebody made to do harm: bombs, forged heads, strange files in the folder. Each is refused by itself."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import logging
import os
import struct
import threading
import tracemalloc
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.backup import archive as container
from infinite_memory.backup.archive import BackupReader, BackupWriter, zstd
from infinite_memory.backup.archive_format import Part
from infinite_memory.backup.encryption import WORK_FACTOR, Cipher, Secret, WorkFactor, new_lock
from infinite_memory.backup.folder import display_name, find_backup_for_client, list_names
from infinite_memory.backup.retention import rotate, scheduled_backups
from infinite_memory.backup.service import Checks, listed, verify_file
from infinite_memory.errors import BackupError, BackupNotFoundError
from tests.unit.backup.test_backup_format import document, part, read, written

HEAD: dict[str, Any] = {"created_at": "2026-03-14T15:09:26.535Z", "reason": "scheduled", "database": "mine"}


def forged(head: bytes, *bodies: tuple[int, bytes]) -> bytes:
    """Write a backup of a raw head and of parts with any declared size, with digests that fit."""
    out = io.BytesIO()
    out.write(struct.pack(">8sH", container.MAGIC, 1))
    digest = hashlib.sha256(out.getvalue()).digest()
    for kind, payload in ((container.HEAD, head), *((container.DATA, body) for _, body in bodies)):
        frame = struct.pack(">4sQ", kind, len(payload))
        digest = hashlib.sha256(digest + frame + payload).digest()
        out.write(frame + payload + digest)
    return out.getvalue()


def bomb(parts: int, part_bytes: int) -> bytes:
    """Write a small file that unpacks into very much."""
    head = json.dumps(HEAD).encode()
    size = part_bytes - 100
    body = struct.pack(">HI", 6, 1) + b"scopes" + document(bytes(size))
    packed = zstd.compress(body, level=3)
    return forged(head, *((len(body), packed) for _ in range(parts)))


def test_a_small_file_that_unpacks_into_very_much_is_refused_before_it_does() -> None:
    data = bomb(20, 40 << 20)
    assert len(data) < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(BackupError, match=r"unpacks into more than .* backup.max_unpacked_mb"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 350 << 20  # a part or two at a time, never all of them
    finally:
        tracemalloc.stop()


def test_the_setting_allows_what_the_size_of_the_file_does_not() -> None:
    reader = BackupReader(io.BytesIO(bomb(8, 40 << 20)), "a.dump", max_unpacked=1 << 30)
    with pytest.raises(BackupError, match="cut off"):  # it has no tail, and was read to its end
        list(reader.parts())


@pytest.mark.parametrize("size", [49 << 20, (1 << 64) - 2])
def test_a_part_that_declares_too_much_is_refused(size: int) -> None:
    # A frame of zstd whose header says a content size of 8 bytes' width.
    frame = struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x58, size) + b"\x01\0\0"
    with pytest.raises(BackupError, match=r"larger than any|cannot be unpacked"):
        read(forged(json.dumps(HEAD).encode(), (size, frame)))


def test_what_shrinks_as_bombs_do_is_written_so_that_it_is_read_again() -> None:
    parts = [part(f"mem_{number}", *[b"x" * (1 << 20)] * 4) for number in range(70)]  # 280 MiB of equal texts
    data = written(*parts)
    assert len(data) < 2 << 20
    assert sum(one.count for one in read(data)) == 280


@pytest.mark.parametrize(
    "head",
    [
        b"[" * 50_000 + b"]" * 50_000,
        b'{"created_at":' * 9_000 + b"1" + b"}" * 9_000,
        b'{"created_at": "' + b"x" * 100_000 + b'"}',
        b'{"created_at": "2026-01-01T00:00:00Z\\n2026 INFO forged line"}',
        b'{"created_at": [1], "reason": "asked"}',
        b'{"created_at": "2026-01-01T00:00:00Z", "reason": {"a": 1}}',
        b'{"created_at": "2026-01-01T00:00:00Z", "schema_version": "one"}',
        b'{"created_at": "2026-01-01T00:00:00Z", "schema_version": -1}',
        b'{"created_at": "2026-01-01T00:00:00Z", "schema_version": 1e400}',
        b'{"created_at": "2026-01-01T00:00:00Z", "database": "\\u001b[31m"}',
        b'{"created_at": "2026-01-01T00:00:00Z", "lock": 5}',
        b'{"n": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe",
        b"null",
    ],
    ids=range(14),
)
def test_a_hostile_head_hides_no_other_backup(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "backup_2026-01-01T00-00-00Z.dump").write_bytes(forged(head))
    good = tmp_path / "backup_2026-01-02T00-00-00Z.dump"
    with good.open("wb") as opened:
        BackupWriter(opened, HEAD).finish({})
    told = [listed(file) for file in list_names(tmp_path)]
    assert [one.fault is None for one in told] == [False, True]
    assert told[0].created_at is None
    assert [one.file for one in scheduled_backups(tmp_path, "mine")] == [good]
    with pytest.raises(BackupError):
        verify_file(tmp_path / "backup_2026-01-01T00-00-00Z.dump")
    verify_file(good)


def scheduled(folder: Path, created_at: str) -> Path:
    """Write a scheduled backup that says when it was made."""
    file = folder / f"backup_{created_at[:19].replace(':', '-')}Z.dump"
    with file.open("wb") as opened:
        BackupWriter(opened, HEAD | {"created_at": created_at}).finish({})
    return file


async def test_rotation_goes_on_beside_forged_and_damaged_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = [scheduled(tmp_path, f"2026-03-{day:02}T03:00:00Z") for day in range(1, 11)]
    future = [scheduled(tmp_path, f"2199-03-{day:02}T03:00:00Z") for day in range(1, 9)]
    for file in future[:4]:
        file.write_bytes(file.read_bytes()[:-3])
    for instant in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        scheduled(tmp_path, instant)
    (tmp_path / "backup_2026-03-20T03-00-00Z.dump").symlink_to(mine[0])
    with caplog.at_level(logging.WARNING):
        removed = await rotate(tmp_path, "mine", 3, 0, ZoneInfo("Pacific/Kiritimati"), None, mine[-1])
    assert removed == mine[:7]
    assert all(file.exists() for file in (*mine[7:], *future))
    assert "newer than the backup of this run" in caplog.text


def test_pipes_devices_links_and_folders_stop_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.dump")
    (tmp_path / "folder.dump").mkdir()
    (tmp_path / "null.dump").symlink_to("/dev/zero")
    (tmp_path / "loop.dump").symlink_to(tmp_path / "loop.dump")
    (tmp_path / "pipe-link.dump").symlink_to(tmp_path / "pipe.dump")
    good = scheduled(tmp_path, "2026-03-01T03:00:00Z")

    def look() -> None:
        assert [listed(file).fault for file in list_names(tmp_path)] == [None]
        assert [one.file for one in scheduled_backups(tmp_path, "mine")] == [good]
        for name in ("pipe.dump", "null.dump", "loop.dump"):
            with pytest.raises(BackupError, match="cannot be read"):
                verify_file(tmp_path / name)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "a pipe was waited for"


@pytest.mark.parametrize(
    "name", [b"a\n2026-01-01 INFO forged.dump", b"\x1b[31mred.dump", b"\xff\xfe.dump", "\u202egnp.dump".encode()]
)
def test_a_file_name_forges_no_line_and_breaks_no_reply(tmp_path: Path, name: bytes) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    file.write_bytes(b"x")
    [told] = [listed(one) for one in list_names(tmp_path)]
    shown = display_name(told.file)
    assert shown.isprintable()
    assert told.fault is not None
    assert told.fault.isprintable()
    json.dumps([shown, told.fault], ensure_ascii=False).encode()


def test_a_client_is_not_told_which_other_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    (tmp_path / "passwords.txt").write_text("secret")
    said = set()
    for name in ("passwords.txt", "none.txt", "backups"):
        with pytest.raises(BackupNotFoundError) as raised:
            find_backup_for_client(tmp_path / "backups", str(tmp_path / name))
        said.add(str(raised.value).replace(name, ""))
    assert len(said) == 1
    elsewhere = scheduled(tmp_path, "2026-03-01T03:00:00Z")
    assert find_backup_for_client(tmp_path / "backups", str(elsewhere)) == elsewhere


# locks


def locked(secret: Secret, **changed: Any) -> bytes:
    """Write a locked backup."""
    file = io.BytesIO()
    lock = new_lock(secret) | changed
    writer = BackupWriter(file, HEAD | {"lock": lock}, Cipher(secret, lock))
    writer.finish({})
    return file.getvalue()


def test_an_unlocked_file_is_refused_where_a_secret_is_set(tmp_path: Path) -> None:
    file = scheduled(tmp_path, "2026-03-01T03:00:00Z")
    secret = Secret(key_material=os.urandom(32))
    with pytest.raises(BackupError, match=r"is not locked.*--allow-unlocked"):
        verify_file(file, Checks(secret))
    verify_file(file, Checks(secret, allow_unlocked=True))
    verify_file(file, Checks())


@pytest.mark.parametrize(
    "secret", [Secret(passphrase="four words of mine"), Secret(key_material=b"a typed sentence of mine")]
)
def test_what_a_person_typed_is_stretched(secret: Secret) -> None:
    lock = BackupReader(io.BytesIO(locked(secret)), "a.dump").head["lock"]
    assert lock["scrypt"] == {"n": 131072, "r": 8, "p": 1} == WORK_FACTOR.to_json()
    assert "scrypt" not in new_lock(Secret(key_material=b"\x80" * 32))


@pytest.mark.parametrize(
    "factor",
    [
        {"n": 1 << 30, "r": 8, "p": 1},
        {"n": 1 << 17, "r": 1 << 20, "p": 1},
        {"n": 1 << 17, "r": 8, "p": 1 << 20},
        {"n": 3, "r": 8, "p": 1},
        {"n": 0, "r": 8, "p": 1},
        {"n": True, "r": 8, "p": 1},
        {"n": "131072", "r": 8, "p": 1},
        {"n": 1 << 17},
        None,
        5,
    ],
    ids=str,
)
def test_a_work_factor_that_would_cost_too_much_or_is_none_is_refused(factor: Any) -> None:
    with pytest.raises(BackupError, match=r"work factor|more work"):
        WorkFactor.from_json(factor)


def test_a_backup_that_names_no_work_factor_opens_as_it_was_locked() -> None:
    salt = "00" * 16
    lock = {"cipher": "AES-256-GCM", "kind": "passphrase", "salt": salt}
    key = hashlib.scrypt(b"pass", salt=bytes(16), n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32)
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed = AESGCM(key).encrypt((1).to_bytes(12, "big"), b"x", b"before")
    assert Cipher(Secret(passphrase="pass"), lock).decrypt(1, sealed, b"before") == b"x"
    marked = hashlib.scrypt("\ufeffpass".encode(), salt=bytes(16), n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32)
    sealed = AESGCM(marked).encrypt((1).to_bytes(12, "big"), b"x", b"before")
    secret = Secret(passphrase="pass", former_passphrase="\ufeffpass")
    assert Cipher(secret, lock).decrypt(1, sealed, b"before") == b"x"


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfmy phrase\r\n",
        b"my phrase\r\nsecond line",
        b"my phrase\r",
        b"my phrase",
        "my phrase\n".encode("utf-16"),
        b"\xfe\xff" + "my phrase\r\n".encode("utf-16-be"),
    ],
)
def test_a_passphrase_is_the_same_however_its_file_was_saved(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "phrase.txt").write_bytes(content)
    assert Secret.from_passphrase_file(tmp_path / "phrase.txt").passphrase == "my phrase"


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\nlate", b"\xff\xfe\x00", b"\x80\x81", b"x" * 100_000])
def test_a_passphrase_file_that_holds_none_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "phrase.txt").write_bytes(content)
    with pytest.raises(BackupError, match="passphrase file"):
        Secret.from_passphrase_file(tmp_path / "phrase.txt")


def test_an_endless_key_file_is_refused() -> None:
    with pytest.raises(BackupError, match="key file"):
        Secret.from_key_file(Path("/dev/zero"))
    with pytest.raises(BackupError, match="passphrase file"):
        Secret.from_passphrase_file(Path("/dev/zero"))


def test_dates_of_heads_are_those_that_are_written() -> None:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert BackupReader(io.BytesIO(written(Part("scopes", 1, document(b"x")))), "a").head
    assert container.find_wrong_field({"created_at": now}) is None
