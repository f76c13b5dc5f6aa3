"""The table of the page's routes, and what the views share: one request with its session, form and answer.

By default a route requires an unrestricted token that may write: anything not considered is denied.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import compile_path

from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError
from infinite_memory.transports.http.api.errors import get_status
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.api.tokens import TokenPermissions
from infinite_memory.transports.http.page.queries import Queries
from infinite_memory.transports.http.page.sessions import Session

if TYPE_CHECKING:
    from infinite_memory.transports.http.page.app import PageApp

HOME = "/"
PREFIX = "/page/"
LOGIN = "/page/login"
VIEWS = (
    ("/", "Search"), ("/page/timeline", "Timeline"), ("/page/scopes", "Scopes"), ("/page/forgotten", "Forgotten"),
    ("/page/duplicates", "Duplicates"), ("/page/backups", "Backups and jobs"), ("/page/health", "Health"),
    ("/page/tokens", "Tokens"), ("/page/import", "Import"),
)  # fmt: skip
INVALID = 422  # the only error status whose answer htmx swaps into the page


@dataclass(slots=True)
class Visit:
    """One request of a logged-in user."""

    app: PageApp
    path: str
    session: Session
    grant: TokenPermissions
    queries: Queries
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    problem: InfiniteMemoryError | None = None
    is_partial: bool = False

    @property
    def may_write(self) -> bool:
        """True if the token may change memories."""
        return not self.grant.read_only

    @property
    def address(self) -> str:
        """The requested path with its query."""
        return self.path + (f"?{urllib.parse.urlencode(self.query)}" if self.query else "")

    @property
    def views(self) -> list[tuple[str, str]]:
        """The views that the token may access, by path and name."""
        routes = {route.path: route for route in ROUTES if route.method == "GET"}
        return [
            (address, name)
            for address, name in VIEWS
            if address in routes and (self.grant.sees_all or routes[address].audience is Audience.ANY)
        ]

    def text(self, name: str) -> str:
        """Return a field of the form or the query, stripped; "" if it is missing."""
        return (self.form.get(name) or self.query.get(name) or "").strip()

    def render(self, template: str, status: int | None = None, **values: Any) -> HTMLResponse:
        """Answer with a template; an error is shown in it, beside its field."""
        if status is None:
            status = INVALID if self.problem is not None else 200
        message = offered = None
        if template not in PARTS:
            message, offered = self.session.message, self.session.offered
            self.session.message = self.session.offered = None
        text = self.app.templates.render(
            template, visit=self, csrf_token=self.session.csrf, path=self.path, problem=describe_problem(self.problem), form=self.form,
            message=message, undo_key=offered, **values,
        )  # fmt: skip
        return HTMLResponse(text, status)

    def go(self, path: str, message: str | None = None) -> Response:
        """Redirect to *path* after success; the next page shows the message."""
        if message is not None:
            self.session.message = message
        return RedirectResponse(path, 303)


PARTS = frozenset({"results.html", "progress.html"})
"""Templates of a part of a page that is shown already: messages wait for the next whole page, which may be on its way."""

View = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A method and path. ``again`` shows the form again if its request failed."""

    method: str
    path: str
    run: View
    audience: Audience
    writes: bool
    retry_view: View | None
    pattern: Any

    def match(self, path: str) -> dict[str, str] | None:
        """Return the path parameters in *path*; None if it does not match."""
        match = self.pattern.match(path)
        return None if match is None else match.groupdict()


ROUTES: list[PageRoute] = []


def page(
    method: str,
    path: str,
    *,
    audience: Audience = Audience.FULL,
    writes: bool | None = None,
    retry_view: View | None = None,
) -> Callable[[View], View]:
    """Register a view in the table; only GET writes nothing, unless *writes* says otherwise."""

    def enter(run: View) -> View:
        is_writing = method != "GET" if writes is None else writes
        ROUTES.append(PageRoute(method, path, run, audience, is_writing, retry_view, compile_path(path)[0]))
        return run

    return enter


def describe_problem(exc: InfiniteMemoryError | None) -> dict[str, Any] | None:
    """Return an error for a template: the last part of its field's path, and its message."""
    if exc is None:
        return None
    name = exc.field if isinstance(exc, InvalidRequestError) else ""
    message = str(exc)
    if name and message.startswith(f"{name}: "):
        message = message.removeprefix(f"{name}: ")
    if get_status(exc) == 500:
        message = "internal error; the log has the details"
    return {"field": name.rpartition(".")[2].partition("[")[0], "says": message}
