"""Serves the table of routes: FastAPI routes and describes, this file lets in, checks bodies, and turns errors into replies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from infinite_memory import __version__
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.kinds import FlagField
from infinite_memory.engine import Engine
from infinite_memory.errors import AuthenticationError, ForbiddenError, InfiniteMemoryError, InvalidRequestError
from infinite_memory.protocols.asgi import ClientGoneError, Receive, Scope, Send, again, headers_of, read_body
from infinite_memory.protocols.asgi import answer as send_json
from infinite_memory.protocols.json_text import parse_object
from infinite_memory.rest.answering import Answer, answer, failed
from infinite_memory.rest.backend import Backend
from infinite_memory.rest.failures import INTERNAL, error_form, internal_form
from infinite_memory.rest.gate import Gate
from infinite_memory.rest.metrics import CONTENT_TYPE, Metrics
from infinite_memory.rest.openapi import TOKEN, completed, operation, responses
from infinite_memory.rest.page import HEADERS, PAGE
from infinite_memory.rest.routes import ROUTES, Route, methods_at
from infinite_memory.rest.tokens import Grant

log = logging.getLogger(__name__)

OPEN = frozenset({"/healthz", "/openapi.json", "/docs"})
"""What needs no token: it tells nothing of any memory."""

HEALTH_S = 5.0  # who asks for the health wants an answer soon
LARGE_BODY = 1 << 20  # bytes from which on parsing would hold up the loop
LONG_BODY_S = 0.5  # what took longer to arrive shows its token again: it may have been revoked meanwhile
_UNROUTED = "none"  # how a request to no route of ours is counted
_GRANT, _ROUTE = "infinite_memory.grant", "infinite_memory.route"
_ABOUT = (
    "A long-term memory on your machine. With user_id a request is about that user's memories, without it about scopes. Every "
    "error has the form of the schema Error."
)


class RestApp:
    """The API as an ASGI application. *built* gives the engine if it is there already."""

    def __init__(self, backend: Backend, gate: Gate, built: Callable[[], Engine | None], *, body_bytes: int) -> None:
        self._gate, self._body_bytes = gate, body_bytes
        self._metrics = Metrics(built)
        self.api = make_api(backend, self._metrics)

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
        except InfiniteMemoryError as problem:
            reply = failed(problem)
            await send_json(watch, reply.status, reply.body, reply.headers)
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
        headers, began = headers_of(scope), time.monotonic()
        token = headers.get("authorization", "")
        if is_guarded := scope["path"] not in OPEN:
            scope[_GRANT] = await self._gate.admit(token)
        try:
            body = await read_body(receive, self._body_bytes)
        except ClientGoneError:
            return
        if body is None:
            said = f"the body is larger than {self._body_bytes:,} bytes"
            await send_json(send, 413, error_form("BODY_TOO_LARGE", said), {"connection": "close"})
            return
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != "application/json":
            said = "a body must have the content type application/json"
            await send_json(send, 415, error_form("UNSUPPORTED_MEDIA_TYPE", said))
            return
        if is_guarded and time.monotonic() - began > LONG_BODY_S and not await self._gate.opens(token):
            raise AuthenticationError
        await self.api(scope, again(body, receive), send)


def make_api(backend: Backend, metrics: Metrics) -> FastAPI:
    """Make the application of the table of routes, and what stands beside it."""
    api = FastAPI(
        title="InfiniteMemory", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None,
        openapi_url=None, redirect_slashes=False,
    )  # fmt: skip
    for route in ROUTES:
        api.add_api_route(
            route.path, _endpoint(backend, route), methods=[route.method], name=route.name, operation_id=route.name,
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
    document: Json = {}

    @api.get("/healthz", responses=responses({200: "Health", 503: "Health"}), operation_id="health")
    async def health(request: Request) -> Response:
        """Tell whether database, model and index work; needs no token."""
        request.scope[_ROUTE] = "/healthz"
        well, checks = await _health(backend)
        body = {"status": "ok" if well else "failing", "checks": checks}
        return JSONResponse(body, 200 if well else 503)

    told: Any = responses({}) | {
        200: {"description": "Prometheus's text format", "content": {"text/plain": {"schema": {"type": "string"}}}}
    }

    @api.get(
        "/metrics", responses=told, operation_id="metrics", openapi_extra={"security": [{TOKEN: []}]},
        response_class=Response,
    )  # fmt: skip
    async def figures(request: Request) -> Response:
        """Figures for Prometheus; for tokens that are bound to no users or scopes."""
        request.scope[_ROUTE] = "/metrics"
        if not _grant(request).sees_all:
            raise ForbiddenError("only a token that is bound to no users or scopes reads the metrics")
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        request.scope[_ROUTE] = "/openapi.json"
        if not document:
            document.update(completed(api.openapi()))
        return JSONResponse(document)

    @api.get("/docs", include_in_schema=False)
    async def page(request: Request) -> Response:
        request.scope[_ROUTE] = "/docs"
        return HTMLResponse(PAGE, headers=HEADERS)


def _endpoint(backend: Backend, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        request.scope[_ROUTE] = route.path
        return _response(await answer(backend, route, _grant(request), partial(_fields, route, request)))

    return endpoint


async def _fields(route: Route, request: Request) -> Json:
    """Read the fields of a request; what stands where the route does not look is refused, never left out."""
    if route.body is None:
        if await request.body():
            raise InvalidRequestError("", "this route takes no body; its fields stand in the query string")
        return _query(route, request) | dict(request.path_params)
    for name in request.query_params:
        raise InvalidRequestError(name, "stands in the query string; the fields of this route go into the JSON body")
    return await _body(request) | dict(request.path_params)


def _query(route: Route, request: Request) -> Json:
    flags = {one.name for one in route.query if isinstance(one, FlagField)}
    found: Json = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            raise InvalidRequestError(name, "stands twice; give it once")
        found[name] = {"true": True, "false": False}.get(value, value) if name in flags else value
    return found


async def _body(request: Request) -> Json:
    body = await request.body()
    if not body:
        return {}
    return await asyncio.to_thread(parse_object, body) if len(body) > LARGE_BODY else parse_object(body)


async def _health(backend: Backend) -> tuple[bool, dict[str, str]]:
    with contextlib.suppress(TimeoutError, InfiniteMemoryError):
        async with asyncio.timeout(HEALTH_S):
            health = await (await backend.engine()).health()
        parts = {"mongodb": health.mongodb, "model": health.model, "sidecar": health.sidecar}
        return health.is_well, {name: "ok" if says == "ok" else "failing" for name, says in parts.items()}
    return False, {}


def _grant(request: Request) -> Grant:
    grant = request.scope[_GRANT]
    assert isinstance(grant, Grant)
    return grant


def _response(reply: Answer) -> Response:
    return JSONResponse(reply.body, reply.status, reply.headers)


async def _failed(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, InfiniteMemoryError)
    return _response(failed(problem))


async def _fault(_: Request, __: Exception) -> Response:
    """Write the reply to what nobody expected; the framework raises it again, and `RestApp` logs it."""
    return JSONResponse(internal_form(), INTERNAL)


async def _no_route(_: Request, __: Exception) -> Response:
    return JSONResponse(error_form("NOT_FOUND", "there is nothing at this address; see /openapi.json"), 404)


async def _no_method(request: Request, _: Exception) -> Response:
    """Refuse a method; says all that the address has, of which the framework knows those of one route only."""
    headers = {"Allow": ", ".join(sorted(methods_at(request.url.path)) or ["GET"])}
    return JSONResponse(error_form("METHOD_NOT_ALLOWED", "this address has no such method"), 405, headers)
