"""Ids derived from a memory's content, keyed so that they reveal nothing without the database's secret.

Some contracts recognise a memory that is saved again by an id derived from its owner and text. With a plain hash, anybody who can look up
ids could find out whether another user stored a guessed text; so the hash is keyed with a secret that is stored in ``meta`` and included in
backups: saving again after a restore, or in another home, gives the same ids.

A restore that merges a backup keeps this database's secret for new ids and adds the backup's, so memories of both are found by
saving them again; a restore that replaces everything brings the backup's. Memories of 0.1.0 have ids without a key and keep them:
they are looked up last. An id alone never gives access to a memory.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from infinite_memory.models import MemoryId
from infinite_memory.store.base import Store

SECRET = "id_secret"
"""Key in ``meta`` of the secret for new ids; ``id_secret.<digest>`` stores each secret ever used here."""

_SECRET_BYTES = 32

DIGEST = "digest"
"""The type and tag of a digest, whose id is derived this way too; retention never prunes memories with both (`jobs.consolidation`)."""

KEY = "digest_of"
"""In the metadata of a digest: what its id is derived from, in addition to its text (`engine.quotations.to_content`)."""

SOURCES = "sources"
"""In the metadata of a digest or a summary: the ids of the memories that it quotes."""

SUMMARY_OF = "summary_of"
"""In the metadata of a summary: what the second part of its id is derived from."""


def make_summary_id(began: str, key: str) -> MemoryId:
    """Return the id of a summary. *began* is the first eight digits: when the conversation ended."""
    return MemoryId(began + hashlib.sha256(f"summary {key}".encode()).digest()[:8].hex())


def is_summary_of(memory_id: str, key: object) -> bool:
    """True if *memory_id* was derived from *key*: nobody can choose an id, or find a key for an existing one."""
    return isinstance(key, str) and memory_id == make_summary_id(memory_id[:8], key)


@dataclass(frozen=True, slots=True)
class IdKeys:
    """The secrets of a database, the one for new ids first."""

    secrets: tuple[bytes, ...]

    def ids(self, content: str) -> list[MemoryId]:
        """Return the ids that a memory with *content* may have: that of a new one first, that of 0.1.0 last."""
        data = content.encode("utf-8", "surrogatepass")
        digests = [hmac.new(secret, data, hashlib.sha256).hexdigest() for secret in self.secrets]
        return [MemoryId(digest[:24]) for digest in (*digests, hashlib.sha256(data).hexdigest())]


class IdKeyring:
    """Caches the secrets until `forget`. Used from one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: IdKeys | None = None

    async def get(self) -> IdKeys:
        """Return the secrets; one is created if the database has none.

        Raises:
            StoreUnavailableError: the database cannot be reached.
        """
        if self._keys is None:
            fresh = {"secret": secrets.token_hex(_SECRET_BYTES)}
            current = str((await self._store.ensure_meta(SECRET, fresh))["secret"])
            digest = hashlib.sha256(current.encode()).hexdigest()[:16]
            await self._store.ensure_meta(f"{SECRET}.{digest}", {"secret": current})
            every = [str(value["secret"]) for value in await self._store.list_meta(f"{SECRET}.")]
            self._keys = IdKeys(tuple(bytes.fromhex(secret) for secret in dict.fromkeys([current, *every])))
        return self._keys

    def forget(self) -> None:
        """Drop the cached secrets: a restore may have changed them."""
        self._keys = None
