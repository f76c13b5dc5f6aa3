"""docs/backup-format.md is enough: a reader written from that page alone, with nothing of this program, reads a real backup."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

import bson
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.store.lifecycle.conftest import Json, Open

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PASSPHRASE, KEY = "vier Wörter von mir", bytes(range(64))


def key_of(lock: Json) -> bytes:
    """Make the key, as "Locked backups" says."""
    salt = bytes.fromhex(lock["salt"])
    assert lock["cipher"] == "AES-256-GCM"
    content = PASSPHRASE.encode() if lock["kind"] == "passphrase" else KEY
    if "scrypt" in lock:
        return hashlib.scrypt(content, salt=salt, **lock["scrypt"], maxmem=1 << 28, dklen=32)
    assert lock["kind"] == "key_file", "only version 0.1.0 wrote passphrases without a work factor"
    return HKDF(SHA256(), 32, salt, b"infinite-memory backup").derive(KEY)


def read_as_documented(data: bytes) -> tuple[Json, dict[str, list[Json]], Json]:
    """Read a backup by "Layout, version 1": its head, the documents of each collection, and its tail."""
    assert data[:8] == b"\x89IMBKP\r\n"
    assert struct.unpack(">H", data[8:10]) == (1,)
    tail_at, end = struct.unpack(">Q8s", data[-16:])
    assert end == b"IMBKPEND"
    digest, at, number = hashlib.sha256(data[:10]).digest(), 10, 0
    head: Json = {}
    collections: dict[str, list[Json]] = {}
    while True:
        kind, length = struct.unpack(">4sQ", data[at : at + 12])
        payload = data[at + 12 : at + 12 + length]
        before, digest = digest, hashlib.sha256(digest + data[at : at + 12 + length]).digest()
        assert data[at + 12 + length : at + 44 + length] == digest
        if kind == b"HEAD":
            head = json.loads(payload)
        else:
            if "lock" in head:
                payload = AESGCM(key_of(head["lock"])).decrypt(number.to_bytes(12, "big"), payload, before)
            content = zstd.ZstdDecompressor().decompress(payload)
            if kind == b"TAIL":
                assert (at, at + 44 + length + 16) == (tail_at, len(data))
                tail = json.loads(content)
                assert tail["parts"] == number
                assert tail["counts"] == {name: len(held) for name, held in collections.items()}
                return head, collections, tail
            assert kind == b"DATA"
            name_length, count = struct.unpack(">HI", content[:6])
            name = content[6 : 6 + name_length].decode("ascii")
            documents = bson.decode_all(content[6 + name_length :])
            assert len(documents) == count
            collections.setdefault(name, []).extend(documents)
        at, number = at + 44 + length, number + 1


@pytest.mark.parametrize("lock", ["", "backup.passphrase_file", "backup.key_file"])
async def test_a_reader_made_from_the_document_reads_what_was_backed_up(
    open_memory: Open, tmp_path: Path, lock: str
) -> None:
    (tmp_path / "secret").write_bytes(KEY if lock.endswith("key_file") else f"{PASSPHRASE}\nsecond line".encode())
    flags = {lock: str(tmp_path / "secret")} if lock else {}

    async def work() -> tuple[Json, list[str], Any]:
        async with open_memory("home", flags) as memory:
            ids = [await memory.store("the cellar key — 鍵", "Réunion", tags=["k"]), await memory.store("second")]
            await memory.ok("update_memory", memory_id=ids[0], content="the attic key")
            await memory.ok("delete_memory", target={"memory_id": ids[1]})
            made = await memory.ok("backup_memory")
            store = memory.services.store
            found = await store.fetch(await store.locate([ids[0]]), vectors=True)  # type: ignore[list-item]
            return made, ids, found[ids[0]].embedding  # type: ignore[index]

    made, ids, embedding = await work()
    head, collections, _ = read_as_documented(Path(made["path"]).read_bytes())
    assert (head["product"], head["created_at"], head["reason"]) == ("infinite-memory", made["created_at"], "asked")
    assert ("lock" in head) == bool(lock)
    assert next(iter(collections)) == "scopes"
    [scope] = [one for one in collections["scopes"] if one["name"] == "Réunion"]
    [key] = collections[f"mem_{scope['_id']}"]
    assert (str(key["_id"]), key["text"], key["tags"], key["live"]) == (ids[0], "the attic key", ["k"], True)
    assert [one["document"]["text"] for one in collections["revisions"]] == ["the cellar key — 鍵"]
    [hidden] = [one for name, held in collections.items() if name.startswith("mem_") for one in held if not one["live"]]
    assert (str(hidden["_id"]), hidden["text"]) == (ids[1], "second")
    rows = np.frombuffer(key["embedding"]["vectors"], dtype="<f4").reshape(len(key["embedding"]["windows"]), -1)
    assert np.array_equal(rows, embedding.vectors)


def test_the_document_names_what_the_reader_goes_by() -> None:
    text = (Path(__file__).parents[3] / "docs" / "backup-format.md").read_text("utf-8")
    for said in (
        "`\\x89IMBKP\\r\\n`",
        "`IMBKPEND`",
        "N = 32768, r = 8, p = 1",
        "n = 131072, r = 8, p = 1",
        "`infinite-memory backup`",
        "AES-256-GCM",
    ):
        assert said in text
