"""`ApiTokens` on MongoDB: one document per token in ``tokens``, keyed by id.

Version 0.1.0 wrote scope names into ``scopes``; ``scope_ids`` replaced it. A token bound to scopes keeps a value in ``scopes``, so that
0.1.0, if it reads the database again, never treats it as unrestricted.
"""

from __future__ import annotations

import logging
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument

from infinite_memory.models import ScopeId, fold
from infinite_memory.store.api_tokens import ApiTokens, TokenRecord
from infinite_memory.store.document_fields import DocumentKind
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.set_aside import SetAside

log = logging.getLogger(__name__)

BOUND = "(by id)"


class MongoApiTokens(ApiTokens):
    """See `ApiTokens`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(self, token: TokenRecord) -> None:
        document = {
            "_id": token.token_id,
            "name": token.name,
            "secret_hash": token.secret_hash,
            "created_at": token.created_at,
            "users": list(token.users),
            "scopes": [] if token.scope_ids is None else [BOUND],
            "scope_ids": None if token.scope_ids is None else [ObjectId(scope_id) for scope_id in token.scope_ids],
            "read_only": token.read_only,
            "metrics_only": token.metrics_only,
            "expires_at": token.expires_at,
        }
        async with self._connection.operation() as database:
            await database[schema.TOKENS].insert_one(document)

    async def find(self, token_id: str) -> TokenRecord | None:
        async with self._connection.operation() as database:
            document = await database[schema.TOKENS].find_one({"_id": {"$eq": token_id}})
        return _record(document) if document is not None and self._accepts(document) else None

    async def all(self) -> list[TokenRecord]:
        async with self._connection.operation() as database:
            documents = await database[schema.TOKENS].find({}).sort("created_at", 1).to_list(None)
        return [_record(document) for document in documents if self._accepts(document)]

    def _accepts(self, document: dict[str, Any]) -> bool:
        return self._connection.set_aside.accepts(DocumentKind.TOKEN, schema.TOKENS, document)

    async def replace_secret(self, token_id: str, secret_hash: str) -> TokenRecord | None:
        async with self._connection.operation() as database:
            document = await database[schema.TOKENS].find_one_and_update(
                {"_id": {"$eq": token_id}}, {"$set": {"secret_hash": secret_hash}}, return_document=ReturnDocument.AFTER
            )
        return None if document is None else _record(document)

    async def remove(self, token_id: str) -> bool:
        async with self._connection.operation() as database:
            done = await database[schema.TOKENS].delete_one({"_id": {"$eq": token_id}})
        return bool(done.deleted_count)


async def bind_to_ids(database: Database, set_aside: SetAside) -> None:
    """Bind the tokens of 0.1.0, which name scopes, to the current ids of these scopes; an unknown name grants nothing."""
    query = {"scopes": {"$exists": True, "$ne": []}, "scope_ids": {"$exists": False}}
    async for token in database[schema.TOKENS].find(query):
        if not set_aside.accepts(DocumentKind.TOKEN, schema.TOKENS, token):
            continue
        keys = [fold(name) for name in token["scopes"]]
        scopes = database[schema.SCOPES].find({"name_key": {"$in": keys}, **schema.PRESENT}, {"_id": 1})
        ids = [scope["_id"] async for scope in scopes]
        await database[schema.TOKENS].update_one(
            {"_id": token["_id"], "scope_ids": {"$exists": False}}, {"$set": {"scope_ids": ids}}
        )
        log.info("a token was bound to %d scopes by their ids", len(ids), extra={"event": "token_upgraded"})


def _record(document: dict[str, Any]) -> TokenRecord:
    ids = document.get("scope_ids")
    if ids is None and document["scopes"]:
        ids = []  # bound to names by 0.1.0 after this store connected: grants nothing until the next start
    return TokenRecord(
        document["_id"], document["name"], document["secret_hash"], document["created_at"], tuple(document["users"]),
        None if ids is None else tuple(ScopeId(str(key)) for key in ids), document["read_only"],
        document.get("metrics_only", False), document["expires_at"],
    )  # fmt: skip
