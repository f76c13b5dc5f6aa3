"""Tokens that let clients in by HTTP: how they are made, told apart, and managed by `infinite-memory tokens`.

The database keeps their SHA-256 only: they hold 256 random bits, so a slow hash would protect nothing more. They are made over the
daemon's own socket and by no command of a contract, so that no assistant can make itself one.
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
from infinite_memory.contracts.fields import Checking, Field, Json, parse_fields
from infinite_memory.contracts.kinds import FlagField, InstantField, NameField
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine import Engine
from infinite_memory.engine.scopes import check_name
from infinite_memory.errors import InvalidRequestError, NotFoundError, shown
from infinite_memory.models import floor_to_millisecond
from infinite_memory.store.tokens import TokenRecord

OWNER = "owner"
"""What stands for the id of a token where the owner comes: by the token of ``http.token``, or by the daemon's own socket."""

_FORM = re.compile(r"im_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_DURATION = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token opens. ``users`` and ``scopes`` are what it is bound to, at most one of them; neither is everything."""

    token_id: str
    users: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    read_only: bool = False

    @property
    def sees_all(self) -> bool:
        """Whether it is bound to no users and no scopes."""
        return not (self.users or self.scopes)

    @property
    def is_full(self) -> bool:
        """Whether it is bound to nothing, so that it may do all that its owner may."""
        return self.sees_all and not self.read_only


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamesField(Field):
    """A list of names; each is checked as *one* is."""

    one: NameField

    def parse(self, value: Any, path: str, checking: Checking) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise InvalidRequestError.wrong(path, value, "a list of names")
        return tuple(dict.fromkeys(self.one.parse(name, path, checking) for name in value))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExpiryField(InstantField):
    """An instant, or how long from now: 12h, 30d, 4w."""

    now: dt.datetime

    def parse(self, value: Any, path: str, checking: Checking) -> dt.datetime:
        found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is not None:
            return self.now + dt.timedelta(**{_UNITS[found[2]]: int(found[1])})
        return super(_ExpiryField, self).parse(value, path, checking)


async def manage(engine: Engine, what: str, given: Mapping[str, Any], checking: Checking) -> Json:
    """Create, list or revoke, as the command line asks for it.

    Raises:
        InvalidRequestError: a part of the new token is wrong, or *what* is none of the three.
        NotFoundError: there is no token of that id.
    """
    tokens = await engine.tokens()
    if what == "create":
        token, record = _made(given, checking, engine.parts.clock())
        await tokens.put(record)
        return {"token": token} | token_out(record)
    if what == "revoke":
        name = str(given.get("token_id", "")).strip()
        name = id_of(name) or name
        if not await tokens.remove(name):
            raise NotFoundError(f"there is no token {shown(name)}; `infinite-memory tokens list` shows them")
        return {"token_id": name, "outcome": "revoked"}
    if what != "list":
        raise InvalidRequestError.wrong("what", what, "one of create, list, revoke")
    now = engine.parts.clock()
    return {
        "tokens": [
            token_out(one) | {"expired": one.expires_at is not None and one.expires_at <= now}
            for one in await tokens.all()
        ]
    }


def _made(given: Mapping[str, Any], checking: Checking, now: dt.datetime) -> tuple[str, TokenRecord]:
    users = NameField(name="user", about="User", max_chars=ID_CHARS)
    scopes = NameField(name="scope", about="Scope")
    fields = parse_fields(
        (
            NameField(name="name", about="What it is for", default="token", max_chars=100),
            _NamesField(name="users", about="Users it is bound to", one=users),
            _NamesField(name="scopes", about="Scopes it is bound to", one=scopes),
            FlagField(name="read_only", about="Whether it only reads", default=False),
            _ExpiryField(name="expires", about="When it stops to work", now=now),
        ),
        given, "", checking,
    )  # fmt: skip
    for name in fields["scopes"] or ():
        check_name(name)
    for field, texts in (("name", (fields.text("name"),)), ("users", fields["users"] or ())):
        if not all(letter.isprintable() for text in texts for letter in text):  # they are shown on a terminal
            raise InvalidRequestError(field, "has a control character")
    if fields["users"] and fields["scopes"]:
        raise InvalidRequestError("scopes", "a token is bound to users or to scopes, not to both; make two")
    expires_at = fields.find_instant("expires")
    if expires_at is not None and expires_at <= now:
        raise InvalidRequestError.wrong("expires", given["expires"], "in the future")
    return make_token(
        fields.text("name"),
        now,
        users=fields["users"] or (),
        scopes=fields["scopes"] or (),
        read_only=fields.flag("read_only"),
        expires_at=expires_at,
    )


def make_token(
    name: str,
    now: dt.datetime,
    *,
    users: Sequence[str] = (),
    scopes: Sequence[str] = (),
    read_only: bool = False,
    expires_at: dt.datetime | None = None,
) -> tuple[str, TokenRecord]:
    """Make a token: itself, to be shown once, and what is kept of it."""
    token_id = secrets.token_hex(6)
    token = f"im_{token_id}_{secrets.token_urlsafe(32)}"
    ends = None if expires_at is None else floor_to_millisecond(expires_at)
    return token, TokenRecord(
        token_id, name, hash_of(token), floor_to_millisecond(now), tuple(users), tuple(scopes), read_only, ends
    )


def hash_of(token: str) -> str:
    """Give what is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def id_of(token: str) -> str | None:
    """Give the id that stands in a token; None where it is none of ours."""
    found = _FORM.fullmatch(token)
    return None if found is None else found[1]


def token_out(record: TokenRecord) -> Json:
    """Write what may be shown of a token."""
    return {
        "token_id": record.token_id,
        "name": record.name,
        "users": list(record.users),
        "scopes": list(record.scopes),
        "read_only": record.read_only,
        "created_at": instant_out(record.created_at),
        "expires_at": None if record.expires_at is None else instant_out(record.expires_at),
    }
