"""Ids that are computed from what a memory is, and tell nothing to those who do not hold the database's secret.

Some contracts meet a memory that is saved again by an id computed from its owner and text. A plain hash would let anybody who can
ask for an id find out whether another user stored a guessed text; so the hash is keyed with a secret that is kept in ``meta`` and
travels in backups: saving again after a restore, or in another home, gives the same ids.

A restore that merges a backup keeps this database's secret for new ids and adds the backup's, so memories of both are found by
saving them again; a restore that replaces everything brings the backup's. Memories of 0.1.0 have ids without a key and keep them:
they are looked for after all others. An id alone never gives access to a memory.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from infinite_memory.models import MemoryId
from infinite_memory.store.base import Store

SECRET = "id_secret"
"""Key in ``meta`` of the secret for new ids; ``id_secret.<digest>`` keeps each secret that was ever in use here."""

_SECRET_BYTES = 32

DIGEST = "digest"
"""The type and tag of a digest, whose id is made so too; retention never prunes what bears both (`jobs.consolidation`)."""

KEY = "digest_of"
"""In the metadata of a digest: what its id is made of beside its text (`engine.quotations.to_content`)."""

SOURCES = "sources"
"""In the metadata of a digest or a summary: the ids of the memories that it quotes."""

SUMMARY_OF = "summary_of"
"""In the metadata of a summary: what the second part of its id is made of."""


def make_summary_id(began: str, key: str) -> MemoryId:
    """Return the id of a summary. *began* is the first eight digits: when the conversation ended."""
    return MemoryId(began + hashlib.sha256(f"summary {key}".encode()).digest()[:8].hex())


def is_summary_of(memory_id: str, key: object) -> bool:
    """True if *memory_id* was made of *key*: nobody chooses an id, or finds a key for one that is there."""
    return isinstance(key, str) and memory_id == make_summary_id(memory_id[:8], key)


@dataclass(frozen=True, slots=True)
class IdKeys:
    """The secrets of a database, that for new ids first."""

    secrets: tuple[bytes, ...]

    def ids(self, content: str) -> list[MemoryId]:
        """Return the ids that a memory of *content* may have: a new one's first, last that of 0.1.0."""
        data = content.encode("utf-8", "surrogatepass")
        digests = [hmac.new(secret, data, hashlib.sha256).hexdigest() for secret in self.secrets]
        return [MemoryId(digest[:24]) for digest in (*digests, hashlib.sha256(data).hexdigest())]


class IdKeyring:
    """Reads the secrets once, and again after `forget`. Used from one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: IdKeys | None = None

    async def get(self) -> IdKeys:
        """Return the secrets; a database that has none gets one.

        Raises:
            StoreUnavailableError: the database cannot be reached.
        """
        if self._keys is None:
            fresh = {"secret": secrets.token_hex(_SECRET_BYTES)}
            current = str((await self._store.ensure_meta(SECRET, fresh))["secret"])
            digest = hashlib.sha256(current.encode()).hexdigest()[:16]
            await self._store.ensure_meta(f"{SECRET}.{digest}", {"secret": current})
            every = [str(value["secret"]) for value in await self._store.list_meta(f"{SECRET}.")]
            self._keys = IdKeys(tuple(bytes.fromhex(one) for one in dict.fromkeys([current, *every])))
        return self._keys

    def forget(self) -> None:
        """Read the secrets again when they are next needed: a restore may have brought others."""
        self._keys = None
