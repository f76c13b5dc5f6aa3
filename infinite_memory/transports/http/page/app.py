"""Serves the page: authenticates requests by the login's cookie, protects those that change anything, and sets every reply's headers.

Against other web pages: the host and origin of every request are checked before it gets here (`connections.judge_host`), which allows
every loopback port. Here a request that changes anything must come from this very origin (behind a proxy the one that `proxies` finds),
carry its session's CSRF token, and not be marked as cross-site by the browser; a read that is fetched by a script must come from
this origin too. The one exception is the form that `infinite-memory open` writes into a file: its one-time code suffices.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import logging
import urllib.parse
from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from infinite_memory.contracts.large_requests import in_thread
from infinite_memory.errors import (
    AuthenticationError,
    ForbiddenError,
    InfiniteMemoryError,
    InvalidRequestError,
    NotFoundError,
)
from infinite_memory.transports.finishing import Finishing
from infinite_memory.transports.http.api.auth import Authenticator
from infinite_memory.transports.http.api.backend import Backend
from infinite_memory.transports.http.api.errors import get_status
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.api.services import PageServices, RestParts
from infinite_memory.transports.http.api.tokens import TokenPermissions
from infinite_memory.transports.http.asgi import (
    ClientGoneError,
    Receive,
    Scope,
    Send,
    SlowBodyError,
    get_headers,
    read_body,
)
from infinite_memory.transports.http.connections import mark_admitted
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.page import views  # registers its pages in the table
from infinite_memory.transports.http.page.background_stats import BackgroundStats
from infinite_memory.transports.http.page.live import stream_changes
from infinite_memory.transports.http.page.queries import Queries
from infinite_memory.transports.http.page.rendering import Assets, Templates
from infinite_memory.transports.http.page.routing import (
    HOME,
    LOGIN,
    PREFIX,
    ROUTES,
    PageRoute,
    Visit,
    describe_problem,
)  # fmt: skip
from infinite_memory.transports.http.page.sessions import PageSessions, Session
from infinite_memory.transports.http.page.uploads import get_folder, store_upload
from infinite_memory.transports.http.proxies import TrustedProxies

log = logging.getLogger(__name__)
_ENTERED = views

CODE_FORM = "/page/login/code"
LIVE, UPLOAD, STATIC, CSRF = "/page/live", "/page/import/upload", "/page/static/", "/page/csrf"
MAX_FIELDS = 2000
LOGIN_BYTES = 16 * 1024  # of a form that is sent without a login
FORM_SHARE = 4  # any other form may have this fraction of the request limit: a text may have a sixteenth, tripled by percent-encoding
MAX_STREAMS = 16  # live streams of one token: a browser opens six at most
MAX_NEXT = 2000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with it a browser sends `Origin: null` from our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


@dataclasses.dataclass(slots=True)
class PageApp:
    """The page as an ASGI application."""

    gate: Authenticator
    backend: Backend
    sessions: PageSessions
    services: PageServices
    owner: OwnerToken
    tokens_changed: Callable[[], None]
    stopping: asyncio.Event
    port: int
    body_bytes: int
    stats: BackgroundStats = dataclasses.field(default_factory=BackgroundStats)
    streams: Counter[str] = dataclasses.field(default_factory=Counter)
    finishing: Finishing = dataclasses.field(default_factory=Finishing)
    assets: Assets = dataclasses.field(default_factory=Assets)
    templates: Templates = dataclasses.field(init=False)
    proxies: TrustedProxies = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.templates = Templates(self.assets)
        self.proxies = TrustedProxies(self.services.config.http)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie, which includes the port: a browser shares cookies between all ports of 127.0.0.1."""
        return f"im_session_{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            response = await self._answer(scope, receive, send)
        except InfiniteMemoryError as exc:
            response = self._failed(exc)
        except SlowBodyError:
            raise  # the server answers it
        except Exception:
            log.exception("a request of the page failed", extra={"event": "request_failed"})
            response = self._failed(InfiniteMemoryError("internal error; the log has the details"))
        if response is not None:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        path, method, headers = scope["path"], scope["method"], get_headers(scope)
        if path.startswith(STATIC) and method == "GET":
            return self.assets.answer(path.removeprefix(STATIC), is_named=b"v=" in scope["query_string"])
        own = self.proxies.find_origin(scope) or f"http://{headers.get('host', '')}"
        _check_origin(method, path, headers, own)
        if path == CODE_FORM and method == "POST":
            return await self._log_in_by_code(await self._read_form(receive), own)
        if path == LOGIN:
            return await self._login(scope, receive, headers, own)
        session = self.sessions.find(self._cookie(headers))
        if session is None:
            return self._ask_for_login(scope, headers)
        try:
            grant = await self.gate.authenticate(f"Bearer {session.token}")
        except AuthenticationError:
            self.sessions.close(self._cookie(headers))
            return self._ask_for_login(scope, headers)
        mark_admitted(scope, grant.token_id)
        if path == CSRF and method == "GET":
            return PlainTextResponse(session.csrf)
        if path == "/page/logout" and method == "POST":
            _check_csrf(session, (await self._read_form(receive)).get("csrf", ""))
            self.sessions.close(self._cookie(headers))
            return RedirectResponse(LOGIN, 303)
        if path == LIVE and method == "GET":
            return await self._stream(receive, send, session, grant)
        if path == UPLOAD and method == "POST":
            _check_csrf(session, headers.get("x-csrf-token", ""))
            _check_may(grant, Audience.FULL, writes=True)
            return await store_upload(get_folder(self), scope, receive)
        return await self._show(scope, receive, session, grant)

    async def _stream(self, receive: Receive, send: Send, session: Session, grant: TokenPermissions) -> Response | None:
        """Stream live changes; a token has at most `MAX_STREAMS`, so that none takes everyone's connections."""
        if self.streams[grant.token_id] >= MAX_STREAMS:
            return PlainTextResponse(f"this token has {MAX_STREAMS} live streams open", 429)
        self.streams[grant.token_id] += 1
        try:
            queries = await Queries.open(self.backend, grant, self._user(grant, session))
            await stream_changes(self, session, queries, receive, send)
        finally:
            self.streams[grant.token_id] -= 1
            if not self.streams[grant.token_id]:
                del self.streams[grant.token_id]
        return None

    async def _show(self, scope: Scope, receive: Receive, session: Session, grant: TokenPermissions) -> Response:
        """Answer with the view at an address."""
        path, headers = scope["path"], get_headers(scope)
        route, params = _find_route(scope["method"], path)
        async with self.gate.room(grant) as take_place:
            form: dict[str, str] = {}
            if scope["method"] == "POST":
                form = await self._read_form(receive, take_place)
                _check_csrf(session, form.pop("csrf", ""))
            _check_may(grant, route.audience, writes=route.writes)
            queries = await Queries.open(self.backend, grant, self._user(grant, session))
            is_partial = headers.get("hx-request") == "true" and headers.get("hx-boosted") != "true"
            visit = Visit(
                self, path, session, grant, queries, params, _parse(scope["query_string"]), form, is_partial=is_partial
            )
            async with self.gate.turn(grant):
                work = _run(route, visit)
                return await (self.finishing.run(work) if route.writes else work)

    def _user(self, grant: TokenPermissions, session: Session) -> str | None:
        """Return whose memories are shown if a token is bound to users: the chosen user, else the first."""
        if not grant.users:
            return None
        return session.user if session.user in grant.users else grant.users[0]

    async def _read_form(self, receive: Receive, take_place: Any = None) -> dict[str, str]:
        """Return the fields of a form; without *take_place* it must be small."""
        max_bytes = LOGIN_BYTES if take_place is None else max(LOGIN_BYTES, self.body_bytes // FORM_SHARE)
        try:
            body = await read_body(receive, max_bytes, take_place or _no_place)
        except ClientGoneError:
            raise InvalidRequestError("", "the form did not arrive whole") from None
        if body is None:
            raise InvalidRequestError("", f"the form is larger than {max_bytes:,} bytes")
        return await in_thread(lambda: _parse(body)) if len(body) > LOGIN_BYTES else _parse(body)

    # logging in

    async def _login(self, scope: Scope, receive: Receive, headers: dict[str, str], origin: str) -> Response:
        following = _local(_parse(scope["query_string"]).get("next", HOME))
        if scope["method"] != "POST":
            return self._login_page(following)
        form = await self._read_form(receive)
        following, submitted = _local(form.get("next", HOME)), form.get("token", "").strip()
        token = self.sessions.take_code(submitted) or submitted
        try:
            grant = await self.gate.authenticate(f"Bearer {token}")
        except AuthenticationError:
            message = "this is no token and no code that opens anything; a code works once and for two minutes"
            return self._login_page(following, message, 422)
        mark_admitted(scope, grant.token_id)
        self.sessions.close(self._cookie(headers))
        return self._logged_in(token, RedirectResponse(following, 303), origin)

    async def _log_in_by_code(self, form: dict[str, str], origin: str) -> Response:
        """Log in with the form in the file written by `infinite-memory open`.

        The answer is a page that navigates to the first view, not a redirect: a request that starts from a file carries no strict cookie.
        """
        token = self.sessions.take_code(form.get("code", ""))
        if token is None:
            message = "the code was used or is too old; say `infinite-memory open` again"
            return self._login_page(HOME, message, 422)
        return self._logged_in(token, HTMLResponse(self.templates.render("opening.html", path=LOGIN)), origin)

    def _logged_in(self, token: str, response: Response, origin: str) -> Response:
        key, _ = self.sessions.open(token)
        is_secure = origin.startswith("https:")
        response.set_cookie(self.cookie_name, key, path="/", secure=is_secure, httponly=True, samesite="strict")
        return response

    def _login_page(self, following: str, message: str | None = None, status: int = 200) -> Response:
        text = self.templates.render("login.html", path=LOGIN, following=following, says=message)
        return HTMLResponse(text, status)

    def _ask_for_login(self, scope: Scope, headers: dict[str, str]) -> Response:
        is_fetched = headers.get("sec-fetch-mode", "navigate") != "navigate" or headers.get("hx-request") == "true"
        if scope["method"] != "GET" or is_fetched or scope["path"] in (LIVE, CSRF):
            return PlainTextResponse("your session has ended", 401)  # the page shows this and keeps what was typed
        following = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        return RedirectResponse(f"{LOGIN}?{urllib.parse.urlencode({'next': _local(following)})}", 303)

    def _cookie(self, headers: dict[str, str]) -> str:
        """Return the session key in a browser's cookie; "" without one. Ours needs no quotes, whose parsing may take seconds."""
        pairs = (pair.partition("=") for pair in headers.get("cookie", "").split(";"))
        return next((value.strip() for name, _, value in pairs if name.strip() == self.cookie_name), "")

    def _failed(self, exc: InfiniteMemoryError) -> Response:
        text = self.templates.render("failed.html", path="", problem=describe_problem(exc))
        return HTMLResponse(text, get_status(exc))


async def _run(route: PageRoute, visit: Visit) -> Response:
    try:
        return await route.run(visit)
    except InfiniteMemoryError as exc:
        if route.retry_view is None or isinstance(exc, AuthenticationError):
            raise
        visit.problem = exc
        return await route.retry_view(visit)


async def _no_place() -> None:
    """Wait for nothing: a body without a login is small."""


def _find_route(method: str, path: str) -> tuple[PageRoute, dict[str, str]]:
    for route in ROUTES:
        if route.method == method and (params := route.match(path)) is not None:
            return route, params
    raise NotFoundError("there is no such page")


def _check_origin(method: str, path: str, headers: dict[str, str], origin: str) -> None:
    """Reject requests from other web pages; *origin* is the page's origin as browsers see it.

    Raises:
        ForbiddenError: it comes from another origin, or changes something and has no origin.
    """
    site = headers.get("sec-fetch-site")
    if path == CODE_FORM:
        return
    if method == "GET":
        if site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            raise ForbiddenError("this is read by its own page alone")
        return
    if headers.get("origin") != origin or site not in (None, "same-origin"):
        raise ForbiddenError(
            "this is asked for by its own page alone; behind a proxy that needs http.origins and http.trusted_proxies "
            "(docs/guides/teams.md, From another machine)"
        )


def _check_csrf(session: Session, token: str) -> None:
    if not hmac.compare_digest(session.csrf.encode(), token.encode("utf-8", "surrogatepass")):
        raise ForbiddenError("the form is of another login; reload the page")


def _check_may(grant: TokenPermissions, audience: Audience, *, writes: bool) -> None:
    """Reject a token that may not access a view.

    Raises:
        ForbiddenError: it may not.
    """
    if grant.read_only and writes:
        raise ForbiddenError("this token only reads")
    if audience is Audience.FULL and not grant.sees_all:
        raise ForbiddenError("this view is for tokens that are bound to no users or scopes")


def _parse(body: bytes) -> dict[str, str]:
    """Return the fields of a form or query; the values of a repeated one are joined by line feeds.

    Raises:
        InvalidRequestError: they are not UTF-8, or too many.
    """
    fields: dict[str, list[str]] = {}
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError as exc:
        raise InvalidRequestError("", "the form cannot be read") from exc
    for name, value in pairs:
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))  # browsers send CRLF
    return {name: "\n".join(values) for name, values in fields.items()}


def _local(path: str) -> str:
    """Return *path* if it is one of the page's, else the first view."""
    is_ours = path == HOME or path.startswith((PREFIX, "/?"))
    return path if is_ours and len(path) <= MAX_NEXT and "\\" not in path and path.isprintable() else HOME


def open_page(
    gate: Authenticator, parts: RestParts, services: PageServices, sessions: PageSessions, owner: OwnerToken,
    tokens_changed: Callable[[], None], stopping: asyncio.Event, *, port: int, body_bytes: int,
) -> PageApp:  # fmt: skip
    """Build the page."""
    backend = Backend(parts.engine, parts.new_session, None, parts.model_timeout_s, administration=parts.administration)
    app = PageApp(gate, backend, sessions, services, owner, tokens_changed, stopping, port, body_bytes)
    len(app.assets.files)  # read now, in the thread that imports all of this
    return app
