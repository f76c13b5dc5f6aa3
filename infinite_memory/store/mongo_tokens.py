"""`Tokens` on MongoDB: a document for each in ``tokens``, by its id."""

from __future__ import annotations

from typing import Any

from infinite_memory.store import schema
from infinite_memory.store.connection import Connection
from infinite_memory.store.tokens import TokenRecord, Tokens


class MongoTokens(Tokens):
    """See `Tokens`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(self, token: TokenRecord) -> None:
        document = {
            "_id": token.token_id,
            "name": token.name,
            "secret_hash": token.secret_hash,
            "created_at": token.created_at,
            "users": list(token.users),
            "scopes": list(token.scopes),
            "read_only": token.read_only,
            "expires_at": token.expires_at,
        }
        async with self._connection.operation() as database:
            await database[schema.TOKENS].insert_one(document)

    async def find(self, token_id: str) -> TokenRecord | None:
        async with self._connection.operation() as database:
            found = await database[schema.TOKENS].find_one({"_id": {"$eq": token_id}})
        return None if found is None else _record(found)

    async def all(self) -> list[TokenRecord]:
        async with self._connection.operation() as database:
            found = await database[schema.TOKENS].find({}).sort("created_at", 1).to_list(None)
        return [_record(one) for one in found]

    async def remove(self, token_id: str) -> bool:
        async with self._connection.operation() as database:
            done = await database[schema.TOKENS].delete_one({"_id": {"$eq": token_id}})
        return bool(done.deleted_count)


def _record(found: dict[str, Any]) -> TokenRecord:
    return TokenRecord(
        found["_id"], found["name"], found["secret_hash"], found["created_at"],
        tuple(found["users"]), tuple(found["scopes"]), found["read_only"], found["expires_at"],
    )  # fmt: skip
