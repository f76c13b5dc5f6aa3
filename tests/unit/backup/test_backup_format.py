"""The container of a backup: what is written is read back, and nothing else is."""

from __future__ import annotations

import dataclasses
import io
import os
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.backup import archive as container
from infinite_memory.backup import encryption
from infinite_memory.backup.archive import BackupReader, BackupWriter
from infinite_memory.backup.archive_format import Part, split_documents
from infinite_memory.backup.encryption import Cipher, Secret, WorkFactor, new_lock
from infinite_memory.errors import BackupError

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
KEY = Secret(key_material=b"\x80\xff" * 16)
SENTENCE = Secret(key_material=b"a sentence that somebody typed")
PASSPHRASE = Secret(passphrase="four words of mine")


@pytest.fixture(autouse=True)
def _quick_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a guess cost little: `test_backup_hostile` pins what it must cost, and a long run pays it here too."""
    if not LONG:
        monkeypatch.setattr(encryption, "WORK_FACTOR", WorkFactor(1 << 12, 8, 1))


def document(content: bytes) -> bytes:
    """Write a BSON document with one binary field."""
    body = b"\x05a\x00" + struct.pack("<iB", len(content), 0) + content + b"\x00"
    return struct.pack("<i", len(body) + 4) + body


def part(name: str, *contents: bytes) -> Part:
    """Build a part with a document for each content."""
    return Part(name, len(contents), b"".join(map(document, contents)))


def written(*parts: Part, secret: Secret | None = None) -> bytes:
    """Write a backup."""
    file = io.BytesIO()
    head: dict[str, object] = {"created_at": "2026-03-14T15:09:26.535Z"}
    cipher = None
    if secret is not None:
        head["lock"] = new_lock(secret)
        cipher = Cipher(secret, head["lock"])  # type: ignore[arg-type]
    writer = BackupWriter(file, head, cipher)
    for one in parts:
        writer.add(one)
    writer.finish({})
    return file.getvalue()


def read(data: bytes, secret: Secret | None = None) -> list[Part]:
    """Read a backup to its end."""
    return list(BackupReader(io.BytesIO(data), "a.dump", secret).parts())


SAMPLE = (part("scopes", b"one", b"two"), part("mem_1", b"x" * 5000, os.urandom(3000)), part("revisions", b"old"))


def places(size: int, count: int) -> list[int]:
    """Choose places of a file: its beginning, its end, and others at random."""
    chance = random.Random(8)
    edges = [*range(min(size, 24)), *range(max(size - 24, 0), size)]
    return sorted({*edges, *(chance.randrange(size) for _ in range(count))})


@pytest.mark.parametrize("secret", [None, PASSPHRASE, KEY, SENTENCE])
def test_what_is_written_is_read_back(secret: Secret | None) -> None:
    assert read(written(*SAMPLE, secret=secret), secret) == list(SAMPLE)


@settings(max_examples=100 if LONG else 20, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=200), min_size=1, max_size=5), max_size=5))
def test_any_documents_are_read_back(groups: list[list[bytes]]) -> None:
    parts = [part(f"c{number}", *group) for number, group in enumerate(groups)]
    assert read(written(*parts)) == parts


@pytest.mark.parametrize("secret", [None, KEY], ids=["plain", "locked"])
def test_any_flipped_byte_is_noticed(secret: Secret | None) -> None:
    data = written(*SAMPLE, secret=secret)
    for place in places(len(data), 200):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises(BackupError):
            read(bytes(damaged), secret)


def test_any_truncation_is_noticed_and_says_where() -> None:
    data = written(*SAMPLE)
    for place in places(len(data), 200):
        with pytest.raises(BackupError, match=r"cut off|no backup"):
            read(data[:place])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(BackupError, match="after its end"):
        read(written(*SAMPLE) + b"\0")


def test_damage_is_named_by_part_and_byte() -> None:
    data = bytearray(written(*SAMPLE))
    at = data.index(b"DATA")
    data[at + 20] ^= 1
    with pytest.raises(BackupError, match=rf"part 1, which begins at byte {at:,}"):
        read(bytes(data))


def test_a_part_left_out_or_exchanged_is_noticed() -> None:
    one, other = written(SAMPLE[0], SAMPLE[1]), written(SAMPLE[0], SAMPLE[2])
    cut = one.index(b"DATA", one.index(b"DATA") + 4)
    with pytest.raises(BackupError):
        read(one[:cut] + one[one.index(b"TAIL") :])
    with pytest.raises(BackupError):
        read(one[:cut] + other[cut:][:-16] + one[-16:])


def test_a_newer_version_is_refused_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(container, "FORMAT_VERSION", container.FORMAT_VERSION + 1)
        data = written(*SAMPLE)
    with pytest.raises(BackupError, match="update InfiniteMemory"):
        read(data)


def test_another_file_is_no_backup() -> None:
    with pytest.raises(BackupError, match="no backup of InfiniteMemory"):
        read(b"PK\x03\x04" + bytes(200))


@pytest.mark.parametrize("wrong", [Secret(passphrase="four words of his"), Secret(passphrase="")])
def test_a_wrong_passphrase_says_so_and_reveals_nothing(wrong: Secret) -> None:
    with pytest.raises(BackupError, match="cannot be opened with this passphrase"):
        read(written(*SAMPLE, secret=PASSPHRASE), wrong)


def test_a_locked_backup_shows_its_head_and_nothing_else() -> None:
    data = written(part("mem_1", b"the secret text"), secret=PASSPHRASE)
    assert BackupReader(io.BytesIO(data), "a.dump").head["created_at"] == "2026-03-14T15:09:26.535Z"
    assert b"mem_1" not in data
    with pytest.raises(BackupError, match="is locked"):
        read(data)


def test_the_same_memory_is_locked_differently_each_time() -> None:
    assert written(*SAMPLE, secret=PASSPHRASE) != written(*SAMPLE, secret=PASSPHRASE)


def test_a_head_exchanged_between_locked_backups_is_noticed() -> None:
    one, other = written(*SAMPLE, secret=PASSPHRASE), written(*SAMPLE, secret=PASSPHRASE)
    cut = one.index(b"DATA")
    with pytest.raises(BackupError):
        read(other[: other.index(b"DATA")] + one[cut:], PASSPHRASE)


def test_a_key_file_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(BackupError, match="16 to"):
        Secret.from_key_file(tmp_path / "key")


def test_a_secret_is_never_shown() -> None:
    assert "four words" not in repr(PASSPHRASE)
    assert "four words" not in str(dataclasses.replace(PASSPHRASE))


@pytest.mark.parametrize("damage", [b"\x04\x00\x00\x00", b"\xff\xff\xff\x7f\x00", b"\x06\x00\x00\x00\x00\x01"])
def test_documents_that_are_not_whole_are_refused(damage: bytes) -> None:
    with pytest.raises(ValueError, match="cut off or damaged"):
        list(split_documents(document(b"good") + damage))
