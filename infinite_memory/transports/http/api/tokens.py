"""Access tokens for HTTP: how they are created, identified, and managed by `infinite-memory tokens`.

The database stores their SHA-256 only: they hold 256 random bits, so a slow hash would protect nothing more. They are created over the
daemon's own socket and by no command of a contract, so that no assistant can create one for itself.

A token is bound to the ids of scopes: renaming a scope neither removes it from a token nor adds it to one, and a scope created under the
name of a removed one is a different scope. When scopes are merged, tokens of the source see nothing of the target.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.agentmem.table import ID_CHARS
from infinite_memory.contracts.field_types import FlagField, InstantField, NameField, TextField
from infinite_memory.contracts.fields import Field, Json, ValidationContext, parse_fields
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.scopes import Scopes
from infinite_memory.errors import (
    InvalidRequestError,
    NotFoundError,
    ScopeNotFoundError,
    check_printable,
    truncated_repr,
)
from infinite_memory.models import ScopeId, floor_to_millisecond
from infinite_memory.store.api_tokens import TokenRecord
from infinite_memory.store.scope_cache import check_name

OWNER = "owner"
"""Stands for a token id in the owner's requests: by the token of ``http.token``, or over the daemon's own socket."""

_FORM = re.compile(r"im_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_DURATION = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class TokenPermissions:
    """The permissions of a token.

    ``users`` and ``scope_ids`` restrict it, at most one of them; no users and None mean everything. ``metrics_only`` allows the metrics
    and nothing else, whatever the other fields are.
    """

    token_id: str
    users: tuple[str, ...] = ()
    scope_ids: tuple[ScopeId, ...] | None = None
    read_only: bool = False
    metrics_only: bool = False

    @property
    def sees_all(self) -> bool:
        """Whether it is bound neither to users, nor to scopes, nor to the metrics."""
        return not self.users and self.scope_ids is None and not self.metrics_only

    @property
    def reads_metrics(self) -> bool:
        """Whether it may read the metrics of the whole daemon."""
        return self.sees_all or self.metrics_only

    @property
    def is_full(self) -> bool:
        """Whether it has no restriction: the owner's permissions."""
        return self.sees_all and not self.read_only


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamesField(Field):
    """A list of names; each is validated by *item*."""

    item: NameField

    def parse(self, value: Any, path: str, checking: ValidationContext) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise InvalidRequestError.invalid_value(path, value, "a list of names")
        return tuple(dict.fromkeys(self.item.parse(name, path, checking) for name in value))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryField(InstantField):
    """An instant, or a duration from now: 12h, 30d, 4w."""

    now: dt.datetime

    def is_empty(self, value: Any, checking: ValidationContext) -> bool:
        """Return False for every value: an empty one must not create a token that never expires."""
        return False

    def parse(self, value: Any, path: str, checking: ValidationContext) -> dt.datetime:
        match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is not None:
            return self.now + dt.timedelta(**{_UNITS[match[2]]: int(match[1])})
        try:
            return super(ExpiryField, self).parse(value, path, checking)
        except InvalidRequestError as exc:
            message = str(exc).removeprefix(f"{path}: ")
            raise InvalidRequestError(
                path, f"{message}; or how long from now in hours, days or weeks: 12h, 30d, 4w"
            ) from None


_TOKEN_ID = TextField(name="token_id", about="Id of the token, or the token itself", required=True, limit="query_chars")


async def manage(engine: Engine, action: str, request: Mapping[str, Any], checking: ValidationContext) -> Json:
    """Create, list, replace or revoke tokens, as the command line requests.

    Raises:
        InvalidRequestError: a field of the new token is invalid, or *action* is not one of the four.
        NotFoundError: there is no token of that id.
    """
    checking = checking.with_strict(True)  # a misspelt `scopes` would create a token with full access
    tokens, scopes = engine.tokens, engine.scopes
    if action == "create":
        token, record = await _make_token(engine, request, checking)
        await tokens.put(record)
        return {"token": token} | serialize_token(record, scopes)
    if action in ("revoke", "rotate"):
        name = parse_fields((_TOKEN_ID,), request, "", checking).text("token_id")
        name = parse_token_id(name) or name
        if action == "rotate":
            token = _write_token(name)
            if (renewed := await tokens.replace_secret(name, hash_token(token))) is not None:
                return {"token": token, "outcome": "rotated"} | serialize_token(renewed, scopes)
        elif await tokens.remove(name):
            return {"token_id": name, "outcome": "revoked"}
        raise NotFoundError(f"there is no token {truncated_repr(name)}; `infinite-memory tokens list` shows them")
    if action != "list":
        raise InvalidRequestError.invalid_value("what", action, "one of create, list, revoke, rotate")
    parse_fields((), request, "", checking)
    await scopes.refresh()
    now = engine.now()
    return {
        "tokens": [
            serialize_token(stored, scopes) | {"expired": stored.expires_at is not None and stored.expires_at <= now}
            for stored in await tokens.all()
        ]
    }


async def _make_token(
    engine: Engine, request: Mapping[str, Any], checking: ValidationContext
) -> tuple[str, TokenRecord]:
    now = engine.now()
    users = NameField(name="user", about="User", max_chars=ID_CHARS)
    scopes = NameField(name="scope", about="Scope")
    fields = parse_fields(
        (
            NameField(name="name", about="What it is for", default="token", max_chars=100),
            _NamesField(name="users", about="Users it is bound to", item=users),
            _NamesField(name="scopes", about="Scopes it is bound to", item=scopes),
            FlagField(name="read_only", about="Whether it only reads", default=False),
            FlagField(name="metrics_only", about="Whether it reads the metrics and nothing else", default=False),
            ExpiryField(name="expires", about="When it stops to work", now=now),
        ),
        request, "", checking,
    )  # fmt: skip
    for name in fields["scopes"] or ():
        check_name(name)
    named = (("name", (fields.text("name"),)), ("users", fields["users"] or ()), ("scopes", fields["scopes"] or ()))
    for field, texts in named:
        for text in texts:  # they are shown on a terminal
            check_printable(text, field)
    if fields["users"] and fields["scopes"]:
        raise InvalidRequestError("scopes", "a token is bound to users or to scopes, not to both; make two")
    if fields.flag("metrics_only") and (fields["users"] or fields["scopes"]):
        raise InvalidRequestError("metrics_only", "a token for the metrics is bound to no users or scopes; make two")
    expires_at = fields.find_instant("expires")
    if expires_at is not None and expires_at <= now:
        raise InvalidRequestError.invalid_value("expires", request["expires"], "in the future")
    return make_token(
        fields.text("name"),
        now,
        users=fields["users"] or (),
        scope_ids=[await _scope_id(engine, name) for name in fields["scopes"]] if fields["scopes"] else None,
        read_only=fields.flag("read_only"),
        metrics_only=fields.flag("metrics_only"),
        expires_at=expires_at,
    )


async def _scope_id(engine: Engine, name: str) -> ScopeId:
    """Return the id of a scope; create it if it does not exist, as a token is not bound to a name."""
    try:
        return (await engine.scopes.get(name)).scope_id
    except ScopeNotFoundError:
        return (await engine.scopes.create(name, "")).scope_id


def make_token(
    name: str,
    now: dt.datetime,
    *,
    users: Sequence[str] = (),
    scope_ids: Sequence[ScopeId] | None = None,
    read_only: bool = False,
    metrics_only: bool = False,
    expires_at: dt.datetime | None = None,
) -> tuple[str, TokenRecord]:
    """Create a token: the secret, to be shown once, and the record to store."""
    token_id = secrets.token_hex(6)
    token = _write_token(token_id)
    if metrics_only:
        scope_ids, read_only = (), True
    bound = None if scope_ids is None else tuple(scope_ids)
    ends = None if expires_at is None else floor_to_millisecond(expires_at)
    return token, TokenRecord(
        token_id, name, hash_token(token), floor_to_millisecond(now), tuple(users), bound, read_only, metrics_only, ends
    )


def _write_token(token_id: str) -> str:
    return f"im_{token_id}_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """Return the hash that is stored for a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def parse_token_id(token: str) -> str | None:
    """Return the id in a token; None if it is not one of ours."""
    match = _FORM.fullmatch(token)
    return None if match is None else match[1]


def serialize_token(record: TokenRecord, every: Scopes) -> Json:
    """Serialize the public part of a token, with the current names of its scopes."""
    bound = record.scope_ids or ()
    scopes = [scope for scope_id in bound if (scope := every.find_by_id(scope_id)) is not None]
    return {
        "token_id": record.token_id,
        "name": record.name,
        "users": list(record.users),
        "scopes": [scope.name for scope in scopes],
        "missing_scopes": len(bound) - len(scopes)
        if bound
        else int(record.scope_ids is not None and not record.metrics_only),
        "read_only": record.read_only,
        "metrics_only": record.metrics_only,
        "created_at": format_instant(record.created_at),
        "expires_at": None if record.expires_at is None else format_instant(record.expires_at),
    }
