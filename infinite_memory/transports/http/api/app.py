"""Serves the table of routes: FastAPI routes and documents, this module authenticates, validates bodies, and maps errors to replies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from infinite_memory.contracts.field_types import FlagField, TagsField
from infinite_memory.contracts.fields import Json
from infinite_memory.engine.engine import Engine
from infinite_memory.errors import AuthenticationError, ForbiddenError, InfiniteMemoryError, InvalidRequestError
from infinite_memory.store.api_tokens import ApiTokens
from infinite_memory.transports.finishing import Finishing
from infinite_memory.transports.http.api.auth import LARGE_REPLY, Authenticator
from infinite_memory.transports.http.api.backend import Backend
from infinite_memory.transports.http.api.dispatch import Answer, answer, failed
from infinite_memory.transports.http.api.errors import INTERNAL, SLOW_BODY, error_form, internal_form, slow_body_form
from infinite_memory.transports.http.api.metrics import CONTENT_TYPE, Metrics
from infinite_memory.transports.http.api.openapi import HEADERS, PAGE, TOKEN, completed, operation, responses
from infinite_memory.transports.http.api.routes import ROUTES, Route, methods_at
from infinite_memory.transports.http.api.services import RestParts
from infinite_memory.transports.http.api.tokens import TokenPermissions
from infinite_memory.transports.http.asgi import (
    ClientGoneError,
    Receive,
    Scope,
    Send,
    SlowBodyError,
    again,
    get_headers,
    in_pieces,
    read_body,
)
from infinite_memory.transports.http.asgi import answer as send_json
from infinite_memory.transports.http.connections import mark_admitted
from infinite_memory.transports.lines import BOM, format_reply, read_line
from infinite_memory.transports.strict_json import parse_object

log = logging.getLogger(__name__)

OPEN = frozenset({"/healthz", "/openapi.json", "/docs"})
"""Paths that need no token: they reveal nothing about any memory."""

METRICS = "/metrics"

API_VERSION = "1"  # of the routes; the program's version is not revealed without a token
HEALTH_S = 5.0  # health checks have short timeouts
HEALTH_AGE_S = 1.0  # how long a health check is cached for all callers
MAX_PARAMETERS = 100  # of a query string
LONG_BODY_S = 0.5  # the token of a request whose body took longer is checked again: it may have been revoked meanwhile
_UNROUTED = "none"  # label of requests that match no route
_GRANT, _ROUTE, _REPLY = "infinite_memory.grant", "infinite_memory.route", "infinite_memory.reply"
_ABOUT = (
    "A long-term memory on your machine. With user_id a request is about that user's memories, without it about scopes. Every "
    "error has the form of the schema Error."
)


async def _no_more() -> Any:
    """Stand for anything that a request sends after its body has been read."""
    return {"type": "http.disconnect"}


class RestApp:
    """The API as an ASGI application. *built* returns the engine if it exists already."""

    def __init__(
        self, backend: Backend, gate: Authenticator, built: Callable[[], Engine | None], *, body_bytes: int
    ) -> None:
        self._gate, self._body_bytes = gate, body_bytes
        self._metrics = Metrics(built, backend.administration)
        self.finishing = Finishing()
        self.api = make_api(backend, self._metrics, self.finishing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began, status = time.monotonic(), 0

        async def watch(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, watch)
        except InfiniteMemoryError as exc:
            reply = failed(exc)
            await send_json(watch, reply.status, reply.body, reply.headers)
        except SlowBodyError:
            await send_json(watch, SLOW_BODY, slow_body_form(), {"connection": "close"})
        except Exception:
            log.exception("a request failed", extra={"event": "request_failed"})
            if not status:
                await send_json(watch, INTERNAL, internal_form())
        finally:
            if status:
                route = scope.get(_ROUTE, _UNROUTED)
                method = scope["method"] if route != _UNROUTED else _UNROUTED
                self._metrics.count(method, route, status, time.monotonic() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, began = get_headers(scope), time.monotonic()
        token = headers.get("authorization", "")
        if scope["path"] in OPEN:
            await self._answer_open(scope, send)
            return
        grant = scope[_GRANT] = await self._gate.authenticate(token, for_metrics=scope["path"] == METRICS)
        mark_admitted(scope, grant.token_id)
        async with self._gate.room(grant) as take_place:
            try:
                body = await read_body(receive, self._body_bytes, take_place)
            except ClientGoneError:
                return
            await self._answer_whole(scope, receive, send, grant, body, is_late=time.monotonic() - began > LONG_BODY_S)

    async def _answer_whole(
        self, scope: Scope, receive: Receive, send: Send, grant: TokenPermissions, body: bytes | None, *, is_late: bool
    ) -> None:
        """Answer a request whose *body* was read, or was too large (None); if it *is_late*, check the token again."""
        headers = get_headers(scope)
        if body is None:
            message = f"the body is larger than {self._body_bytes:,} bytes"
            await send_json(send, 413, error_form("BODY_TOO_LARGE", message), {"connection": "close"})
            return
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != "application/json":
            message = "a body must have the content type application/json"
            await send_json(send, 415, error_form("UNSUPPORTED_MEDIA_TYPE", message))
            return
        if is_late and not await self._gate.is_valid(headers.get("authorization", "")):
            raise AuthenticationError
        if scope["query_string"].count(b"&") >= MAX_PARAMETERS:
            raise InvalidRequestError("", f"the query string has more than {MAX_PARAMETERS} parameters")
        async with self._gate.turn(grant), contextlib.AsyncExitStack() as stack:
            scope[_REPLY] = stack, self._gate.reply_place(grant)
            await self.api(scope, again(body, receive), in_pieces(send))

    async def _answer_open(self, scope: Scope, send: Send) -> None:
        """Answer without authentication; the body is not read, and only the path of the request is used."""
        if scope["method"] not in ("GET", "HEAD"):
            message = "this address has no such method"
            headers = {"Allow": "GET", "connection": "close"}
            await send_json(send, 405, error_form("METHOD_NOT_ALLOWED", message), headers)
            return
        scope["query_string"] = b""
        await self.api(scope, again(b"", _no_more), send)


def make_api(backend: Backend, metrics: Metrics, finishing: Finishing | None = None) -> FastAPI:
    """Build the application from the table of routes, and the paths outside it; *finishing* completes writes."""
    finishing = finishing or Finishing()
    api = FastAPI(
        title="InfiniteMemory", version=API_VERSION, description=_ABOUT, docs_url=None, redoc_url=None,
        openapi_url=None, redirect_slashes=False,
    )  # fmt: skip
    for route in ROUTES:
        api.add_api_route(
            route.path, _endpoint(backend, route, finishing), methods=[route.method], name=route.name, operation_id=route.name,
            summary=route.about.partition(".")[0], description=route.about, status_code=next(iter(route.gives)),
            responses=responses(route.gives), openapi_extra=operation(route),
        )  # fmt: skip
    _add_service(api, backend, metrics)
    api.add_exception_handler(404, _no_route)
    api.add_exception_handler(405, _no_method)
    api.add_exception_handler(InfiniteMemoryError, _failed)
    api.add_exception_handler(Exception, _fault)
    return api


def _add_service(api: FastAPI, backend: Backend, metrics: Metrics) -> None:
    written: list[bytes] = []
    look = _Health(backend)

    told_of_health = responses({200: "Health", 503: "Health"})
    del told_of_health[401]  # it needs no token

    @api.get("/healthz", responses=told_of_health, operation_id="health")
    async def health(request: Request) -> Response:
        """Answer whether database, model and index work; needs no token."""
        request.scope[_ROUTE] = "/healthz"
        well, checks = await look()
        body = {"status": "ok" if well else "failing", "checks": checks}
        return JSONResponse(body, 200 if well else 503)

    documented: Any = responses({}) | {
        200: {"description": "Prometheus's text format", "content": {"text/plain": {"schema": {"type": "string"}}}}
    }

    @api.get(
        METRICS, responses=documented, operation_id="metrics", openapi_extra={"security": [{TOKEN: []}]},
        response_class=Response,
    )  # fmt: skip
    async def figures(request: Request) -> Response:
        """Figures for Prometheus; for tokens that are bound to no users or scopes, and those made for this alone."""
        request.scope[_ROUTE] = METRICS
        if not _grant(request).reads_metrics:
            raise ForbiddenError(
                "only a token that is bound to no users or scopes, or made for the metrics, reads them"
            )
        return Response(await metrics.text(), media_type=CONTENT_TYPE)

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        request.scope[_ROUTE] = "/openapi.json"
        if not written:  # once: anybody may request it
            written.append(bytes(JSONResponse(completed(api.openapi())).body))
        return Response(written[0], media_type="application/json")

    @api.get("/docs", include_in_schema=False)
    async def page(request: Request) -> Response:
        request.scope[_ROUTE] = "/docs"
        return HTMLResponse(PAGE, headers=HEADERS)


def _endpoint(backend: Backend, route: Route, finishing: Finishing) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        request.scope[_ROUTE] = route.path
        work = partial(answer, backend, route, _grant(request), partial(_fields, route, request))
        if route.writes:
            return await _response(await finishing.run(work()))
        stack, reply_place = request.scope[_REPLY]
        await stack.enter_async_context(reply_place)  # until a large reply has been sent
        response = await _response(await work())
        if len(response.body) <= LARGE_REPLY:
            await stack.aclose()
        return response

    return endpoint


async def _fields(route: Route, request: Request) -> Json:
    """Read the fields of a request; fields in a place where the route expects none are rejected, never ignored."""
    if route.body is None:
        if await request.body():
            raise InvalidRequestError("", "this route takes no body; its fields stand in the query string")
        fields = _query(route, request)
    else:
        for name in request.query_params:
            raise InvalidRequestError(
                name, "stands in the query string; the fields of this route go into the JSON body"
            )
        fields = await _body(request)
    for name in request.path_params:
        if name in fields:
            raise InvalidRequestError(name, "stands in the address already; give it there alone")
    return fields | dict(request.path_params)


def _query(route: Route, request: Request) -> Json:
    for pair in request.scope["query_string"].split(b"&"):
        try:
            urllib.parse.unquote_to_bytes(pair).decode()
        except UnicodeDecodeError:  # with replacement characters, two names could become one
            name = pair.partition(b"=")[0].decode("ascii", "replace")
            raise InvalidRequestError(name, "is not UTF-8 in the query string") from None
    flags = {field.name for field in route.query if isinstance(field, FlagField)}
    lists = {field.name for field in route.query if isinstance(field, TagsField)}
    fields: Json = {}
    for name, value in request.query_params.multi_items():
        if name in fields and name in lists:  # as the OpenAPI document describes lists: one parameter an item
            before = fields[name]
            fields[name] = [*(before if isinstance(before, list) else [before]), value]
            continue
        if name in fields:
            raise InvalidRequestError(name, "stands twice; give it once")
        fields[name] = {"true": True, "false": False}.get(value, value) if name in flags else value
    return fields


async def _body(request: Request) -> Json:
    body = await request.body()
    if not body:
        return {}
    return await read_line(body.removeprefix(BOM), parse_object)


class _Health:
    """The health as of a moment ago: it is public, without a rate limit."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._task: asyncio.Task[tuple[bool, dict[str, str]]] | None = None
        self._known: tuple[bool, dict[str, str]] = (False, {})
        self._until = float("-inf")

    async def __call__(self) -> tuple[bool, dict[str, str]]:
        if time.monotonic() < self._until:
            return self._known
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(_health(self._backend), name="health")
        self._known = await asyncio.shield(self._task)
        self._until = time.monotonic() + HEALTH_AGE_S
        return self._known


async def _health(backend: Backend) -> tuple[bool, dict[str, str]]:
    with contextlib.suppress(TimeoutError, InfiniteMemoryError):
        async with asyncio.timeout(HEALTH_S):
            health = await (await backend.engine()).stats.health(recheck=False)
        parts = {"mongodb": health.mongodb, "model": health.model, "sidecar": health.sidecar}
        return health.is_well, {name: "ok" if says == "ok" else "failing" for name, says in parts.items()}
    return False, {}


def _grant(request: Request) -> TokenPermissions:
    grant = request.scope[_GRANT]
    assert isinstance(grant, TokenPermissions)
    return grant


async def _response(reply: Answer) -> Response:
    content = await format_reply(reply.body)
    return Response(content.removesuffix(b"\n"), reply.status, reply.headers, media_type="application/json")


async def _failed(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, InfiniteMemoryError)
    return await _response(failed(exc))


async def _fault(_: Request, __: Exception) -> Response:
    """Write the reply to an unexpected exception; the framework raises it again, and `RestApp` logs it."""
    return JSONResponse(internal_form(), INTERNAL)


async def _no_route(_: Request, __: Exception) -> Response:
    return JSONResponse(error_form("NOT_FOUND", "there is nothing at this address; see /openapi.json"), 404)


async def _no_method(request: Request, _: Exception) -> Response:
    """Reject a method; list all methods of the path, of which the framework knows those of one route only."""
    headers = {"Allow": ", ".join(sorted(methods_at(request.url.path)) or ["GET"])}
    return JSONResponse(error_form("METHOD_NOT_ALLOWED", "this address has no such method"), 405, headers)


def open_gate(
    owner_token: Callable[[], str], parts: RestParts | None, rate: str | None, concurrent: int
) -> Authenticator:
    """Return the authenticator; without *parts* it knows the owner's token only."""
    return Authenticator(
        owner_token, None if parts is None else _open_tokens(parts.engine), rate, concurrent=concurrent
    )


def open_rest(gate: Authenticator, parts: RestParts, *, body_bytes: int) -> RestApp:
    """Build the API."""
    backend = Backend(
        parts.engine, parts.new_session, parts.model(), parts.model_timeout_s, administration=parts.administration
    )
    return RestApp(backend, gate, parts.built, body_bytes=body_bytes)


def _open_tokens(engine: Callable[[], Awaitable[Engine]]) -> Callable[[], Awaitable[ApiTokens]]:
    async def tokens() -> ApiTokens:
        return (await engine()).tokens

    return tokens
