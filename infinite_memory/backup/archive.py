"""Reader and writer of backup files: numbered parts, each compressed and chained to its predecessors by a digest.

`archive_format` defines the layout. Documents are opaque here: a part holds whole, concatenated BSON documents of one named collection.

Why a chain of digests and not one checksum at the end: damage is located before anything after it is trusted, and parts cannot be
dropped or swapped.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from infinite_memory.backup.archive_format import (
    COUNT,
    DATA,
    DIGEST_BYTES,
    END_MAGIC,
    FORMAT_VERSION,
    FRAME,
    FREE_UNPACKED_BYTES,
    HEAD,
    MAGIC,
    MAX_HEAD_BYTES,
    MAX_NAME_BYTES,
    MAX_PART_BYTES,
    MAX_PARTS,
    MAX_PAYLOAD_BYTES,
    MAX_TAIL_BYTES,
    MAX_UNPACK_RATIO,
    PREAMBLE,
    TAIL,
    TRAILER,
    Part,
    Summary,
    chain,
    find_wrong_field,
    pad,
    split_documents,
    to_json,
)
from infinite_memory.backup.encryption import Cipher, Secret
from infinite_memory.errors import BackupError, format_count

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_READ_BYTES = 1 << 20
_LEVEL = 3  # higher levels cost seconds and gain little: most of a backup is vectors


class BackupWriter:
    """Writes one backup sequentially to an open file."""

    def __init__(self, file: BinaryIO, header: Mapping[str, Any], cipher: Cipher | None = None) -> None:
        self._file, self._cipher = file, cipher
        self._compressor = zstd.ZstdCompressor(level=_LEVEL)
        self._number = 0
        self._counts: Counter[str] = Counter()
        preamble = PREAMBLE.pack(MAGIC, FORMAT_VERSION)
        self._write(preamble)
        self._digest = hashlib.sha256(preamble).digest()
        self._frame(HEAD, to_json(header))

    def add(self, part: Part) -> None:
        """Write a part; may be called from a thread.

        Raises:
            OSError: the file cannot be written.
        """
        name = part.collection.encode("ascii")
        body = COUNT.pack(len(name), part.count) + name + part.documents
        self._counts[part.collection] += part.count
        self._frame(DATA, self._packed(body))

    def finish(self, details: Mapping[str, Any]) -> None:
        """Write the tail, with *details* in it; a file without a tail is not a valid backup."""
        offset = self._file.tell()
        tail = {"counts": dict(self._counts), "parts": self._number, "details": dict(details)}
        self._frame(TAIL, self._packed(to_json(tail)))
        self._write(TRAILER.pack(offset, END_MAGIC))

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of documents written so far, by collection."""
        return self._counts

    def _packed(self, body: bytes) -> bytes:
        packed = pad(self._compressor.compress(body, self._compressor.FLUSH_FRAME), len(body))
        return packed if self._cipher is None else self._cipher.encrypt(self._number, packed, self._digest)

    def _frame(self, kind: bytes, payload: bytes) -> None:
        header = FRAME.pack(kind, len(payload))
        self._digest = chain(self._digest, header, payload)
        self._write(header)
        self._write(payload)
        self._write(self._digest)
        self._number += 1

    def _write(self, data: bytes) -> None:
        if self._file.write(data) != len(data):
            raise OSError("the file was written short")


def mark_file(status: os.stat_result) -> str:
    """Return a mark that identifies this file in its present state: another or a modified file has a different one."""
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


class BackupReader:
    """Reads one backup sequentially; trusts nothing that is not covered by a digest.

    Args:
        file: A seekable open file, positioned at its start.
        name: The file's name in messages.
        secret: Decrypts an encrypted backup; needed for everything after the head.
        max_unpacked: Limit for the decompressed size of all parts, in bytes; None derives it from the size of the file.

    Raises:
        BackupError: it is not a backup, has a newer format version, or its head is damaged.
    """

    def __init__(
        self, file: BinaryIO, name: str, secret: Secret | None = None, *, max_unpacked: int | None = None
    ) -> None:
        self._file, self._name, self._secret, self._max_unpacked = file, name, secret, max_unpacked
        self._number = 0
        self.unpacked_bytes = 0
        self._offset = 0
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        preamble = self._read(PREAMBLE.size, "its beginning")
        magic, version = PREAMBLE.unpack(preamble)
        if magic != MAGIC:
            raise BackupError(f"{name} is no backup of InfiniteMemory (it begins with other bytes)")
        self._digest = hashlib.sha256(preamble).digest()
        try:
            kind, payload, _ = self._frame()
        except BackupError:
            if version > FORMAT_VERSION:
                raise self._newer(version) from None
            raise
        if version > FORMAT_VERSION:
            raise self._newer(version)
        if kind != HEAD or version < 1:
            raise self._damaged(0, "it has no head")
        self.head = self._json(payload, 0)
        if (wrong := find_wrong_field(self.head)) is not None:
            raise self._damaged(0, f"{wrong} in its head is not what is written there")
        self.is_encrypted = "lock" in self.head
        self._cipher: Cipher | None = None

    def mark(self) -> str:
        """Return `mark_file` of the open file."""
        return mark_file(os.fstat(self._file.fileno()))

    @property
    def digest(self) -> bytes:
        """Digest of everything read so far: two files with equal digests at the end have equal contents."""
        return self._digest

    def parts(self) -> Iterator[Part]:
        """Yield every part, in order; finishing without an error means that the whole file is intact.

        Raises:
            BackupError: a part or the tail is damaged or missing, or the passphrase is wrong; says where.
        """
        self._summary: Summary | None = None
        counts: Counter[str] = Counter()
        if self.is_encrypted:
            if self._secret is None:
                raise BackupError(f"{self._name} is locked; name its file in backup.passphrase_file or backup.key_file")
            self._cipher = self._cipher or Cipher(self._secret, self.head["lock"])
        while True:
            offset, before = self._offset, self._digest
            kind, payload, number = self._frame()
            if kind not in (DATA, TAIL):
                raise self._damaged(offset, "a part of an unknown kind")
            if number > MAX_PARTS:
                raise self._damaged(offset, f"it has more than {MAX_PARTS:,} parts")
            body = self._unpacked(payload, number, before, offset, MAX_TAIL_BYTES if kind == TAIL else MAX_PART_BYTES)
            if kind == TAIL:
                self._end(offset, self._json(body, offset), counts, number)
                return
            part = self._part(body, offset)
            counts[part.collection] += part.count
            yield part

    @property
    def summary(self) -> Summary:
        """Summary of the contents; available once `parts` is exhausted."""
        if self._summary is None:
            raise BackupError(f"{self._name} was not read to its end")
        return self._summary

    def again(self) -> BackupReader:
        """Return a new reader of the same open file, at its start."""
        reader = BackupReader(self._file, self._name, self._secret, max_unpacked=self._max_unpacked)
        if reader.head == self.head:
            reader._cipher = self._cipher  # deriving a key is slow
        return reader

    def checksum(self) -> str:
        """Read the file again; returns its SHA-256 in hexadecimal."""
        self._file.seek(0)
        digest = hashlib.sha256()
        while block := self._file.read(_READ_BYTES):
            digest.update(block)
        return digest.hexdigest()

    def _end(self, offset: int, tail: Mapping[str, Any], counts: Counter[str], number: int) -> None:
        trailer = self._read(TRAILER.size, "its last bytes")
        if trailer != TRAILER.pack(offset, END_MAGIC):
            raise self._damaged(self._offset - TRAILER.size, "its last bytes are others than were written")
        if self._offset != self._size:
            raise self._damaged(self._offset, f"{format_count(self._size - self._offset, 'byte')} after its end")
        if tail.get("counts") != dict(counts) or tail.get("parts") != number:
            raise self._damaged(offset, "its parts are not those that were written")
        details = tail.get("details")
        self._summary = Summary(self.head, dict(counts), number, details if isinstance(details, dict) else {})

    def _frame(self) -> tuple[bytes, bytes, int]:
        offset = self._offset
        header = self._read(FRAME.size, "the beginning of a part")
        kind, length = FRAME.unpack(header)
        if kind == HEAD and length > MAX_HEAD_BYTES:
            raise self._damaged(offset, f"its head has {length:,} bytes, the limit is {MAX_HEAD_BYTES:,}")
        if length > MAX_PAYLOAD_BYTES or self._offset + length + DIGEST_BYTES > self._size:
            raise self._damaged(offset, "a part's length is wrong, or the file was cut off")
        payload = self._read(length, "a part")
        digest = chain(self._digest, header, payload)
        if self._read(DIGEST_BYTES, "a part's digest") != digest:
            raise self._damaged(offset, "a part's digest does not fit")
        self._digest = digest
        self._number += 1
        return kind, payload, self._number - 1

    def _unpacked(self, payload: bytes, number: int, before: bytes, offset: int, limit: int) -> bytes:
        if self._cipher is not None:
            opened = self._cipher.decrypt(number, payload, before)
            if opened is None:
                # The digest matches, so the bytes are intact: the key is wrong.
                raise BackupError(f"{self._name} cannot be opened with this passphrase or key file")
            payload = opened
        try:
            size = zstd.get_frame_info(payload).decompressed_size
            if size is None or size > limit:
                raise self._damaged(offset, "a part is larger than any that is written")
            self._count_unpacked(size)
            decompressor = zstd.ZstdDecompressor()
            body = decompressor.decompress(payload, max_length=size + 1)
        except zstd.ZstdError as exc:
            raise self._damaged(offset, "a part cannot be unpacked") from exc
        if len(body) != size or not decompressor.eof:
            raise self._damaged(offset, "a part cannot be unpacked")
        return body

    def _count_unpacked(self, size: int) -> None:
        """Count a part's decompressed size before it is decompressed.

        Raises:
            BackupError: the total exceeds the limit.
        """
        self.unpacked_bytes += size
        allowed = self._max_unpacked
        if allowed is None:
            allowed = max(FREE_UNPACKED_BYTES, MAX_UNPACK_RATIO * self._offset)
        if self.unpacked_bytes > allowed:
            raise BackupError(
                f"{self._name} unpacks into more than {allowed >> 20:,} MiB at byte {self._offset:,} of {self._size:,}, "
                "which is more than a backup of its size does; the setting backup.max_unpacked_mb allows it"
            )

    def _part(self, body: bytes, offset: int) -> Part:
        try:
            length, count = COUNT.unpack_from(body)
            start = COUNT.size + length
            name = body[COUNT.size : start].decode("ascii")
        except (struct.error, UnicodeDecodeError) as exc:
            raise self._damaged(offset, "a part does not say what it holds") from exc
        if not 0 < length <= MAX_NAME_BYTES:
            raise self._damaged(offset, "a part is of a collection whose name no backup of ours has")
        documents = body[start:]
        try:
            actual = sum(1 for _ in split_documents(documents))
        except ValueError as exc:
            raise self._damaged(offset, str(exc)) from exc
        if actual != count:
            raise self._damaged(offset, f"a part holds {format_count(actual, 'document')} instead of {count:,}")
        return Part(name, count, documents)

    def _read(self, length: int, part: str) -> bytes:
        data = self._file.read(length)
        if len(data) != length:
            raise BackupError(f"{self._name} was cut off at byte {self._offset + len(data):,}: {part} is missing")
        self._offset += length
        return data

    def _json(self, data: bytes, offset: int) -> dict[str, Any]:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self._damaged(offset, "a description is not JSON that can be read")
        return value

    def _damaged(self, offset: int, reason: str) -> BackupError:
        return BackupError(f"{self._name} is damaged in part {self._number}, which begins at byte {offset:,}: {reason}")

    def _newer(self, version: int) -> BackupError:
        return BackupError(
            f"{self._name} has format version {version}, this program knows up to {FORMAT_VERSION}; update InfiniteMemory"
        )


def read_head(file: BinaryIO, name: str) -> dict[str, Any]:
    """Read the head of a backup, without decrypting its contents.

    Raises:
        BackupError: it is not a backup, or its head is damaged.
        OSError: it cannot be read.
    """
    return BackupReader(file, name).head
