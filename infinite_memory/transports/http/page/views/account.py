"""Selects whose memories are shown, if the token of the login is bound to several users."""

from __future__ import annotations

from starlette.responses import Response

from infinite_memory.errors import ForbiddenError
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.page.routing import HOME, Visit, page


@page("POST", "/page/user", audience=Audience.ANY, writes=False)
async def choose_user(visit: Visit) -> Response:
    """Show the memories of another user from now on.

    Raises:
        ForbiddenError: the token is not bound to that user.
    """
    name = visit.text("user")
    if name not in visit.grant.users:
        raise ForbiddenError("this token is bound to other users")
    visit.session.user = name
    return visit.go(HOME)
