"""Import: a file is dropped or chosen, checked in a dry run, then imported with progress."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from starlette.responses import Response

from infinite_memory.engine.types import Progress
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, format_count
from infinite_memory.transfer.formats import FORMATS
from infinite_memory.transfer.import_folders import UPLOAD_NAME
from infinite_memory.transports.http.page import work
from infinite_memory.transports.http.page.routing import Visit, page
from infinite_memory.transports.http.page.uploads import get_folder, remove_upload, to_file_name

Json = dict[str, Any]

ADDRESS = "/page/import"


async def show_import(visit: Visit) -> Response:
    """Show the drop area; for an uploaded file, what an import would add."""
    file, preview = visit.text("file"), None
    if file and visit.problem is None:
        try:
            request = _request(visit) | {"dry_run": True}
            preview = await visit.queries.run("import_memory", request, uploads=get_folder(visit.app))
        except InfiniteMemoryError as exc:
            visit.problem = exc
    return visit.render(
        "import.html", file=file, file_name=file.rpartition("/")[2], preview=preview,
        scopes=await visit.queries.scope_names(), format_names=[form.name for form in FORMATS],
        asked={"scope": visit.text("scope"), "format": visit.text("format")}, status=None if visit.form else 200,
    )  # fmt: skip


page("GET", ADDRESS, writes=True)(show_import)


@page("POST", ADDRESS, retry_view=show_import)
async def import_file(visit: Visit) -> Response:
    """Import the file that was sent; it is removed once it is in."""
    request, path = _request(visit), _path(visit)

    async def run(progress: Progress) -> str:
        done = await visit.queries.run("import_memory", request, progress, uploads=get_folder(visit.app))
        await asyncio.to_thread(remove_upload, path)
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in done.get("skipped_reasons", {}).items())
        left_out = f"{done['skipped']:,} left out" + (f": {reasons}" if reasons else "")
        into = f" to {request['scope']}" if "scope" in request else ""
        suffix = f" ({done['note']})" if "note" in done else ""
        return f"{format_count(done['added'], 'memory')} added{into}{suffix}, {done['present']:,} were here already, {left_out}."

    return visit.go(work.begin(visit.session, visit.app.finishing, f"Importing {path.name}", ADDRESS, run))


@page("POST", "/page/import/discard", retry_view=show_import)
async def discard(visit: Visit) -> Response:
    """Remove a file that was sent and is not to be imported."""
    await asyncio.to_thread(remove_upload, _path(visit))
    return visit.go(ADDRESS, "The file that was sent here is removed again.")


def _path(visit: Visit) -> Path:
    """Return the path of the file that the form names.

    Raises:
        InvalidRequestError: it was not uploaded here.
    """
    folder, _, name = visit.text("file").partition("/")
    if UPLOAD_NAME.fullmatch(folder) is None or to_file_name(name) != name:
        raise InvalidRequestError("file", "is none that was sent here")
    return get_folder(visit.app) / folder / name


def _request(visit: Visit) -> Json:
    request: Json = {"path": str(_path(visit))}
    if visit.text("scope"):
        request["scope"] = visit.text("scope")
    if visit.text("format"):
        request["format"] = visit.text("format")
    return request
