"""Tokens for HTTP clients: created, listed, replaced, revoked. A token is shown once."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transports.http.api.tokens import OWNER
from infinite_memory.transports.http.page.routing import Visit, page

Json = dict[str, Any]

LIST = "/page/tokens"


async def show_tokens(visit: Visit) -> Response:
    """List the tokens; one that was just created or replaced is shown with its secret."""
    listed = (await visit.queries.manage_tokens("list", {}))["tokens"]
    secret, visit.session.secret_once = visit.session.secret_once, None
    return visit.render(
        "tokens.html", rows=listed, secret=secret, scopes=await visit.queries.scope_names(), zone=visit.queries.zone,
        token_file=str(visit.app.owner.file), own_id=visit.grant.token_id,
    )  # fmt: skip


page("GET", LIST, writes=True)(show_tokens)


@page("POST", "/page/tokens/make", retry_view=show_tokens)
async def make(visit: Visit) -> Response:
    """Make a token.

    Raises:
        InvalidRequestError: it is bound to scopes and users at once, or a field is wrong.
    """
    fields: Json = {"name": visit.text("name") or "token"} | {
        flag: visit.text(flag) == "yes" for flag in ("read_only", "metrics_only")
    }
    if scopes := [name for name in visit.form.get("scopes", "").split("\n") if name]:
        fields["scopes"] = scopes
    if users := [name.strip() for name in visit.text("users").split(",") if name.strip()]:
        fields["users"] = users
    if visit.text("expires"):
        fields["expires"] = visit.text("expires")
    token = await visit.queries.manage_tokens("create", fields)
    visit.session.secret_once = token["token"]
    visit.app.tokens_changed()
    return visit.go(LIST, f"The token {token['name']} is made.")


@page("POST", "/page/tokens/rotate", retry_view=show_tokens)
async def rotate(visit: Visit) -> Response:
    """Replace a token; of the one that this login came with, the login goes on with the new one."""
    token_id = visit.text("token_id")
    if token_id == OWNER:
        token = visit.app.owner.rotate()
        message = f"The owner's token is replaced; the new one is in {visit.app.owner.file}."
    else:
        token = (await visit.queries.manage_tokens("rotate", {"token_id": token_id}))["token"]
        visit.session.secret_once, message = token, "The token is replaced; the old one opens nothing any more."
    if token_id == visit.grant.token_id:
        visit.session.token = token
    visit.app.tokens_changed()
    return visit.go(LIST, message)


@page("POST", "/page/tokens/revoke", retry_view=show_tokens)
async def revoke(visit: Visit) -> Response:
    """Let a token open nothing any more.

    Raises:
        InvalidRequestError: it is the one that this login came with.
    """
    token_id = visit.text("token_id")
    if token_id == visit.grant.token_id:
        raise InvalidRequestError("token_id", "is the token that you are logged in with; log in with another first")
    await visit.queries.manage_tokens("revoke", {"token_id": token_id})
    visit.app.tokens_changed()
    return visit.go(LIST, "The token is revoked.")
