"""What must run in the peer's environment, with the peer's own packages.

    python inside_peer.py fill FOLDER    memories.jsonl (text, tags, Unix time) and vectors.npy of FOLDER go into its SQLite file
    python inside_peer.py vector         prints the vector of the text that stands on standard input, as the file has it

The peer makes its own tables, so they are what its release wants.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import sqlite3
import sys
from pathlib import Path

import numpy as np
import sqlite_vec
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash

DATABASE = os.environ["MCP_MEMORY_SQLITE_PATH"]
MEMORY = """INSERT INTO memories (id, content_hash, content, tags, memory_type, metadata,
            created_at, updated_at, created_at_iso, updated_at_iso, store) VALUES (?, ?, ?, ?, 'note', '{}', ?, ?, ?, ?, 'default')"""
VECTOR = "INSERT INTO memory_embeddings (rowid, content_embedding, store) VALUES (?, ?, 'default')"
FOUND = """SELECT content_embedding FROM memory_embeddings JOIN memories ON memories.id = memory_embeddings.rowid WHERE content = ?"""


async def fill(folder: Path) -> None:
    """Make the peer's tables and fill them."""
    storage = SqliteVecMemoryStorage(DATABASE)
    await storage.initialize()
    vectors = np.load(folder / "vectors.npy")
    with (folder / "memories.jsonl").open(encoding="utf-8") as lines:
        for number, (line, vector) in enumerate(zip(lines, vectors, strict=True), 1):
            one = json.loads(line)
            at = one["at"]
            said = dt.datetime.fromtimestamp(at, dt.UTC).isoformat()
            row = (number, generate_content_hash(one["text"]), one["text"], ",".join(one["tags"]), at, at, said, said)
            storage.conn.execute(MEMORY, row)
            storage.conn.execute(VECTOR, (number, vector.astype("<f4").tobytes()))
    storage.conn.commit()
    await storage.close()


def vector(text: str) -> list[float]:
    """Read the stored vector of a text; empty when the text is not there."""
    with sqlite3.connect(DATABASE) as database:
        database.enable_load_extension(True)
        sqlite_vec.load(database)
        found = database.execute(FOUND, (text,)).fetchone()
    return np.frombuffer(found[0], "<f4").tolist() if found else []


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        asyncio.run(fill(Path(sys.argv[2])))
    else:
        print(json.dumps(vector(sys.stdin.read())))
