"""A file that is dropped onto the page: written into a folder of its own among those for imports, from where `import_memory` reads it.

It is a copy that this program made, so it goes once it is in or put away; one that somebody left lying goes with the first file that
comes a day later, and with the data (`uninstall`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transfer.import_folders import UPLOADS, ImportFolders
from infinite_memory.transports.http.asgi import Receive, Scope

if TYPE_CHECKING:
    from infinite_memory.transports.http.page.app import PageApp

MAX_BYTES = 2 << 30
MAX_AGE_S = 86_400.0  # of a file that nobody imported
MAX_NAME_BYTES = 200  # of UTF-8: file systems take 255, and a number may come to it
CHUNK_S = 30.0  # a browser that sends nothing for so long has gone
_UNSAFE = re.compile(r"[^\w.\- ]+")


def to_file_name(name: str) -> str:
    """Return a plain name of a file: no folders, no controls, nothing hidden."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")
    end = plain.encode()[-MAX_NAME_BYTES:].decode(errors="ignore")
    return end.lstrip(" .") or "upload"


def get_folder(app: PageApp) -> Path:
    """Return where files lie that were dropped onto the page."""
    return ImportFolders.of(app.services.config.import_.folders, app.services.home).folders[0] / UPLOADS


def remove_upload(path: Path) -> None:
    """Remove a file that was dropped, and the folder where none is left."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def remove_old(folder: Path) -> None:
    """Remove what was left lying."""
    before = time.time() - MAX_AGE_S
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if file.lstat().st_mtime < before:
                file.unlink()


def put_into_place(partial: Path, folder: Path, name: str) -> Path:
    """Give a file that arrived its name in *folder*, with a number where that is taken; return its path."""
    path, number = folder / name, 1
    while True:
        try:
            path.open("xb").close()  # so that of two files of one name none takes the other's place
        except FileExistsError:
            number += 1
            path = folder / to_file_name(f"{Path(name).stem}-{number}{Path(name).suffix}")
        else:
            partial.replace(path)
            return path


async def store_upload(app: PageApp, scope: Scope, receive: Receive) -> Response:
    """Write the body into a new file; answers with its name.

    Raises:
        InvalidRequestError: it is too large, or did not arrive whole; nothing is left of it.
    """
    named = urllib.parse.parse_qs(scope["query_string"].decode("latin-1")).get("name", [""])[0]
    folder = get_folder(app)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(remove_old, folder)
    name = to_file_name(named)
    partial = folder / f".{secrets.token_hex(8)}.part"
    size = 0
    try:
        with partial.open("xb") as file:
            while True:
                part = await asyncio.wait_for(receive(), CHUNK_S)
                if part["type"] != "http.request":
                    raise InvalidRequestError("file", "did not arrive whole")
                size += len(part.get("body", b""))
                if size > MAX_BYTES:
                    raise InvalidRequestError(
                        "file", f"is larger than {MAX_BYTES:,} bytes; use `infinite-memory import`"
                    )
                await asyncio.to_thread(file.write, part.get("body", b""))
                if not part.get("more_body", False):
                    break
        path = await asyncio.to_thread(put_into_place, partial, folder, name)
    except TimeoutError:
        raise InvalidRequestError("file", "did not arrive whole") from None
    finally:
        partial.unlink(missing_ok=True)
    return JSONResponse({"file": path.name})
