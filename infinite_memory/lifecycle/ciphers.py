"""Encryption of a backup's parts: a key from a passphrase or a key file, and AES-256-GCM over every part.

Each backup has a salt of its own, so no two have the same key, and a part's nonce may be its number. The digest of all that came
before is the associated data: parts cannot be exchanged, left out or carried into another backup.

Sources: RFC 7914 (scrypt), RFC 5869 (HKDF), NIST SP 800-38D (GCM).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory.config import BackupSettings
from infinite_memory.errors import BackupError

SALT_BYTES = 16
KEY_BYTES = 32
MIN_KEY_FILE_BYTES = 16
MAX_KEY_FILE_BYTES = 1 << 20

SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 15, 8, 1
"""32 MiB and about a tenth of a second for each guess of a passphrase."""


@dataclass(frozen=True, slots=True)
class Secret:
    """What a backup is locked with: a passphrase, or the content of a key file. Never shown."""

    passphrase: str | None = None
    key_material: bytes | None = None

    def __repr__(self) -> str:
        return "Secret(...)"

    @classmethod
    def from_key_file(cls, file: Path) -> Secret:
        """Read a key file: any 16 bytes to 1 MiB, best made by a random generator.

        Raises:
            BackupError: it cannot be read, or is too short or too long.
        """
        try:
            material = file.read_bytes()
        except OSError as problem:
            raise BackupError(f"the key file cannot be read: {problem.strerror}") from problem
        if not MIN_KEY_FILE_BYTES <= len(material) <= MAX_KEY_FILE_BYTES:
            raise BackupError(
                f"the key file has {len(material):,} bytes; {MIN_KEY_FILE_BYTES} to {MAX_KEY_FILE_BYTES:,} were expected"
            )
        return cls(key_material=material)

    @classmethod
    def from_passphrase_file(cls, file: Path) -> Secret:
        """Read a passphrase: the first line of a file.

        Raises:
            BackupError: it cannot be read, or the line is empty.
        """
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise BackupError("the passphrase file cannot be read as text") from problem
        if not lines or not lines[0]:
            raise BackupError("the passphrase file has no passphrase in its first line")
        return cls(passphrase=lines[0])


def find_secret(settings: BackupSettings) -> Secret | None:
    """Give what backups are locked with by the settings; None when they are not.

    Raises:
        BackupError: a file that the settings name cannot be read, or is empty.
    """
    if settings.key_file:
        return Secret.from_key_file(Path(settings.key_file).expanduser())
    if settings.passphrase_file:
        return Secret.from_passphrase_file(Path(settings.passphrase_file).expanduser())
    return None


def new_lock(secret: Secret) -> dict[str, Any]:
    """Describe how a new backup is locked, without anything that opens it; stands in the backup's head."""
    kind = "passphrase" if secret.passphrase is not None else "key_file"
    return {"cipher": "AES-256-GCM", "kind": kind, "salt": os.urandom(SALT_BYTES).hex()}


class Cipher:
    """Encrypts and decrypts the parts of one backup."""

    def __init__(self, secret: Secret, lock: Mapping[str, Any]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._gcm = AESGCM(_derive(secret, lock))

    def encrypt(self, number: int, data: bytes, before: bytes) -> bytes:
        """Encrypt part *number*; *before* is the digest of what precedes it."""
        return self._gcm.encrypt(_nonce(number), data, before)

    def decrypt(self, number: int, data: bytes, before: bytes) -> bytes | None:
        """Decrypt part *number*; None when the key is another one, or the part was tampered with."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._gcm.decrypt(_nonce(number), data, before)
        except InvalidTag:
            return None


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


def _derive(secret: Secret, lock: Mapping[str, Any]) -> bytes:
    try:
        salt = bytes.fromhex(lock["salt"])
        kind, cipher = lock["kind"], lock["cipher"]
    except (KeyError, TypeError, ValueError):
        raise BackupError("the backup does not say how it is locked") from None
    if cipher != "AES-256-GCM":
        raise BackupError(f"the backup is locked with {cipher!r}, which this version does not know")
    if kind == "passphrase":
        if secret.passphrase is None:
            raise BackupError("the backup is locked with a passphrase, and a key file was given")
        return hashlib.scrypt(
            secret.passphrase.encode("utf-8", "surrogatepass"), salt=salt, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P,
            maxmem=128 * SCRYPT_N * SCRYPT_R * 2, dklen=KEY_BYTES,
        )  # fmt: skip
    if secret.key_material is None:
        raise BackupError("the backup is locked with a key file, and a passphrase was given")
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), KEY_BYTES, salt, b"infinite-memory backup").derive(secret.key_material)
