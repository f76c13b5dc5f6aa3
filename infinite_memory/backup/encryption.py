"""Encryption of a backup's parts: AES-256-GCM for every part, with a key from a passphrase or a key file.

Each backup has its own salt, so no two have the same key, and a part's number can serve as its nonce. The digest of everything
before a part is its associated data: parts cannot be swapped, dropped or moved to another backup.

Why some key files are stretched too: a typed sentence is as easy to guess as a passphrase. A key file that is not text was
generated and needs no stretching. Backups without a work factor, such as those of version 0.1.0, are decrypted as they were encrypted.

Sources: RFC 7914 (scrypt), RFC 5869 (HKDF), NIST SP 800-38D (GCM).
"""

from __future__ import annotations

import codecs
import functools
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory.errors import BackupError, truncated_repr
from infinite_memory.platform_files import open_regular
from infinite_memory.settings import BackupSettings

SALT_BYTES = 16
KEY_BYTES = 32
MIN_KEY_FILE_BYTES = 16
MAX_KEY_FILE_BYTES = 1 << 20
MAX_PASSPHRASE_FILE_BYTES = 1 << 16
MAX_SALT_BYTES = 64

CIPHER_NAME = "AES-256-GCM"


@dataclass(frozen=True, slots=True)
class WorkFactor:
    """The cost of guessing a passphrase: scrypt parameters, stored in a backup's head."""

    n: int
    r: int
    p: int

    @property
    def memory_bytes(self) -> int:
        """Memory needed to derive a key."""
        return 128 * self.r * (self.n + self.p + 2)

    def to_json(self) -> dict[str, int]:
        """Return the JSON form for the head."""
        return {"n": self.n, "r": self.r, "p": self.p}

    @classmethod
    def from_json(cls, value: object) -> WorkFactor:
        """Parse it from a head, which is untrusted.

        Raises:
            BackupError: it is not a work factor, or exceeds `MAX_MEMORY_BYTES` or `MAX_WORK`.
        """
        named = [value.get(name) for name in ("n", "r", "p")] if isinstance(value, dict) else []
        numbers = [number for number in named if type(number) is int and number > 0]
        if len(numbers) != 3:
            raise BackupError("the backup does not say how it is locked: its work factor cannot be read")
        factor = cls(*numbers)
        if factor.n < 2 or factor.n & (factor.n - 1):
            raise BackupError("the backup does not say how it is locked: n of its work factor is not a power of two")
        if factor.memory_bytes > MAX_MEMORY_BYTES or factor.n * factor.r * factor.p > MAX_WORK:
            raise BackupError(
                f"the backup asks for more work than is allowed to open it: scrypt with n = {factor.n:,}, "
                f"r = {factor.r:,}, p = {factor.p:,}"
            )
        return factor


WORK_FACTOR = WorkFactor(1 << 17, 8, 1)
"""For new backups: 128 MiB and about half a second per guess."""

FIRST_WORK_FACTOR = WorkFactor(1 << 15, 8, 1)
"""For passphrases in backups whose head has none, as written by version 0.1.0."""

MAX_MEMORY_BYTES = 520 << 20
MAX_WORK = 1 << 22
"""Limit for n * r * p, four times that of new backups: bounds the work that a hostile head can cause."""


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of a backup: a passphrase, or the content of a key file. Never shown.

    ``former_passphrase`` is the passphrase as version 0.1.0 read it, if that differs: with the byte order mark.
    """

    passphrase: str | None = None
    key_material: bytes | None = None
    former_passphrase: str | None = None

    def __repr__(self) -> str:
        return "Secret(...)"

    @classmethod
    def from_key_file(cls, file: Path) -> Secret:
        """Read a key file: any 16 bytes to 1 MiB, best made by a random generator.

        Raises:
            BackupError: it cannot be read, or is too short or too long.
        """
        try:
            material = _read_at_most(file, MAX_KEY_FILE_BYTES)
        except OSError as exc:
            raise BackupError(f"the key file (backup.key_file) cannot be read: {exc.strerror}") from exc
        if not MIN_KEY_FILE_BYTES <= len(material) <= MAX_KEY_FILE_BYTES:
            size = f"more than {MAX_KEY_FILE_BYTES:,}" if len(material) > MAX_KEY_FILE_BYTES else f"{len(material):,}"
            raise BackupError(
                f"the key file (backup.key_file) has {size} bytes; {MIN_KEY_FILE_BYTES} to {MAX_KEY_FILE_BYTES:,} were expected"
            )
        return cls(key_material=material)

    @classmethod
    def from_passphrase_file(cls, file: Path) -> Secret:
        """Read a passphrase: the first line of a text file in UTF-8, or in UTF-16 with a byte order mark.

        The byte order mark and the line ending, of any platform, are stripped.

        Raises:
            BackupError: it cannot be read, or the line is empty.
        """
        try:
            data = _read_at_most(file, MAX_PASSPHRASE_FILE_BYTES)
        except OSError as exc:
            raise BackupError(f"the passphrase file (backup.passphrase_file) cannot be read: {exc.strerror}") from exc
        if len(data) > MAX_PASSPHRASE_FILE_BYTES:
            raise BackupError(
                f"the passphrase file (backup.passphrase_file) has more than {MAX_PASSPHRASE_FILE_BYTES:,} bytes"
            )
        try:
            text = data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8")
        except UnicodeDecodeError as exc:
            raise BackupError("the passphrase file (backup.passphrase_file) is not text in UTF-8 or UTF-16") from exc
        lines = text.removeprefix(_BOM).splitlines()
        if not lines or not lines[0]:
            raise BackupError("the passphrase file (backup.passphrase_file) has no passphrase in its first line")
        return cls(passphrase=lines[0], former_passphrase=_BOM + lines[0] if text.startswith(_BOM) else None)


_BOM = "\ufeff"


def _read_at_most(file: Path, limit: int) -> bytes:
    """Read a regular file up to *limit* + 1 bytes, enough to detect a larger one; a pipe would block the daemon.

    Raises:
        OSError: as `open_regular`.
    """
    with open_regular(file) as opened:
        return opened.read(limit + 1)


def find_secret(settings: BackupSettings) -> Secret | None:
    """Return the secret that the settings configure for backups, or None.

    Raises:
        BackupError: a configured file cannot be read, or is empty.
    """
    if settings.key_file:
        return Secret.from_key_file(Path(settings.key_file).expanduser())
    if settings.passphrase_file:
        return Secret.from_passphrase_file(Path(settings.passphrase_file).expanduser())
    return None


def new_lock(secret: Secret) -> dict[str, Any]:
    """Return the encryption parameters of a new backup, for its head; contains no secret."""
    kind = "passphrase" if secret.passphrase is not None else "key_file"
    lock = {"cipher": CIPHER_NAME, "kind": kind, "salt": os.urandom(SALT_BYTES).hex()}
    is_typed = secret.key_material is None or _is_text(secret.key_material)
    return lock | ({"scrypt": WORK_FACTOR.to_json()} if is_typed else {})


def _is_text(material: bytes) -> bool:
    """True if somebody may have typed it: random bytes are text once in many millions."""
    try:
        text = material.decode("utf-8")
    except UnicodeDecodeError:
        return material.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return all(char.isprintable() or char.isspace() or char in "\0\ufeff" for char in text)


class Cipher:
    """Encrypts and decrypts the parts of one backup."""

    def __init__(self, secret: Secret, lock: Mapping[str, Any]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        keys = _derive(secret, lock)
        self._gcm, self._others = AESGCM(keys[0]), [AESGCM(key) for key in keys[1:]]

    def encrypt(self, number: int, data: bytes, before: bytes) -> bytes:
        """Encrypt part *number*; *before* is the digest of what precedes it."""
        return self._gcm.encrypt(_nonce(number), data, before)

    def decrypt(self, number: int, data: bytes, before: bytes) -> bytes | None:
        """Decrypt part *number*; None if the key is wrong or the part was tampered with."""
        from cryptography.exceptions import InvalidTag

        for gcm in (self._gcm, *self._others):
            try:
                opened = gcm.decrypt(_nonce(number), data, before)
            except InvalidTag:
                continue
            self._gcm, self._others = gcm, []
            return opened
        return None


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


def _derive(secret: Secret, lock: Mapping[str, Any]) -> list[bytes]:
    """Return the candidate keys of a backup, the likeliest first."""
    try:
        salt = bytes.fromhex(lock["salt"])
        kind, cipher = lock["kind"], lock["cipher"]
    except (KeyError, TypeError, ValueError):
        raise BackupError("the backup does not say how it is locked") from None
    if cipher != CIPHER_NAME:
        raise BackupError(f"the backup is locked with {truncated_repr(cipher)}, which this version does not know")
    if kind not in ("passphrase", "key_file") or not 0 < len(salt) <= MAX_SALT_BYTES:
        raise BackupError("the backup does not say how it is locked")
    factor = WorkFactor.from_json(lock["scrypt"]) if "scrypt" in lock else None
    if kind == "passphrase":
        if secret.passphrase is None:
            raise BackupError("the backup is locked with a passphrase, and a key file was given")
        # Version 0.1.0 kept the byte order mark in the passphrase, later versions strip it.
        others = [secret.former_passphrase] if factor is None and secret.former_passphrase is not None else []
        phrases = [phrase.encode("utf-8", "surrogatepass") for phrase in (secret.passphrase, *others)]
        return [_stretched(phrase, salt, factor or FIRST_WORK_FACTOR) for phrase in phrases]
    if secret.key_material is None:
        raise BackupError("the backup is locked with a key file, and a passphrase was given")
    if factor is not None:
        return [_stretched(secret.key_material, salt, factor)]
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return [HKDF(SHA256(), KEY_BYTES, salt, b"infinite-memory backup").derive(secret.key_material)]


@functools.lru_cache(maxsize=4)
def _stretched(material: bytes, salt: bytes, factor: WorkFactor) -> bytes:
    try:
        return hashlib.scrypt(
            material, salt=salt, n=factor.n, r=factor.r, p=factor.p, maxmem=factor.memory_bytes + (1 << 20),
            dklen=KEY_BYTES,
        )  # fmt: skip
    except (ValueError, MemoryError) as exc:
        raise BackupError("the key cannot be derived: there is not enough memory, or the work factor is wrong") from exc
