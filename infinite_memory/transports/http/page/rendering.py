"""Templates and static files of the page: read once, always escaped, and served with their checksum in the URL."""

from __future__ import annotations

import datetime as dt
import hashlib
import mimetypes
import re
from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.responses import PlainTextResponse, Response

from infinite_memory.contracts.timestamps import format_day, on_clock
from infinite_memory.errors import format_count

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
_YEAR = "public, max-age=31536000, immutable"


class Assets:
    """The files below ``static``, by name."""

    @property
    def folder(self) -> Path:
        """The folder of templates and static files."""
        return Path(str(resources.files("infinite_memory.transports.http.page")))

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The content of every static file, by name."""
        root = self.folder / "static"
        return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()}

    def address(self, name: str) -> str:
        """Return the URL of a file; it changes with the content, so browsers may cache it."""
        return f"/page/static/{name}?v={hashlib.sha256(self.files[name]).hexdigest()[:12]}"

    def answer(self, name: str, *, is_named: bool) -> Response:
        """Answer with a file; browsers cache it if the URL has its checksum."""
        content = self.files.get(name)
        if content is None:
            return PlainTextResponse("there is no such file", 404)
        suffix = Path(name).suffix
        kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(content, media_type=kind, headers={"Cache-Control": _YEAR if is_named else "no-cache"})


class Templates:
    """The templates. All their values are escaped; nothing marks text as safe."""

    def __init__(self, assets: Assets) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(assets.folder / "templates"), autoescape=select_autoescape(default=True),
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._environment.globals["asset"] = assets.address
        self._environment.filters |= {
            "instant": format_local, "size": format_size, "count": format_count, "without_midnight": leave_out_midnight,
            "local_day": format_local_day, "frame": format_frame,
        }  # fmt: skip

    def render(self, name: str, **values: Any) -> str:
        """Render a template."""
        return self._environment.get_template(name).render(values)


def format_local(instant: str | None, zone: ZoneInfo) -> str:
    """Format an instant of a reply in the time zone *zone*; an empty text if there is none."""
    if not instant:
        return ""
    local = on_clock(dt.datetime.fromisoformat(instant), zone)
    return f"{format_day(local)}, {local:%H:%M}"


def format_local_day(instant: str, zone: ZoneInfo) -> str:
    """Format the day of an instant of a reply in the time zone *zone*."""
    return format_day(on_clock(dt.datetime.fromisoformat(instant), zone))


def format_frame(frame: Mapping[str, str | None]) -> str:
    """Format the time range that was searched; whole days as the first and the last, without the midnight at its end."""
    start, end = (dt.datetime.fromisoformat(edge) if (edge := frame[name]) else None for name in ("from", "to"))
    if (start is None or start.time() == dt.time.min) and (end is None or end.time() == dt.time.min):
        last = end if end is None or end.date() == dt.date.min else end - dt.timedelta(microseconds=1)
        edges = ["the beginning" if start is None else format_day(start), "now" if last is None else format_day(last)]
        return edges[0] if edges[0] == edges[1] else " to ".join(edges)
    return " to ".join(
        absent if edge is None else f"{format_day(edge)}, {edge:%H:%M}"
        for edge, absent in ((start, "the beginning"), (end, "now"))
    )


def leave_out_midnight(text: str) -> str:
    """Return a displayed instant without a midnight after its day: that of a memory of which only the day is known."""
    return re.sub(r",? 00:00$", "", text)


def format_size(size: float) -> str:
    """Format a number of bytes."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"
