"""Progress of long work."""

from __future__ import annotations

from starlette.responses import Response

from infinite_memory.errors import NotFoundError
from infinite_memory.transports.http.page.routing import Visit, page


@page("GET", "/page/progress/{key}")
async def show_work(visit: Visit) -> Response:
    """Show a piece of work that this login began.

    Raises:
        NotFoundError: there is none.
    """
    work = visit.session.tasks.get(visit.params["key"])
    if work is None:
        raise NotFoundError("there is no such work, or it was long ago")
    return visit.render("progress.html" if visit.is_partial else "work.html", work=work)
