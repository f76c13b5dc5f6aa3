"""A file dropped onto the page: written into its own folder in the home, from where `import_memory` reads it.

It is a copy made by this program, so it is removed once it is imported or discarded; an abandoned one is removed when the first file
a day later arrives, and with the data (`uninstall`). Why not in the import folders: their content belongs to others, links
and folders too, and an upload could be written, and something of theirs removed, where those point.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import stat
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from infinite_memory.errors import InvalidRequestError
from infinite_memory.paths import make_own_folder
from infinite_memory.platform_files import find_shortage
from infinite_memory.transfer.import_folders import UPLOAD_NAME, UPLOADS
from infinite_memory.transports.http.asgi import Receive, Scope

if TYPE_CHECKING:
    from infinite_memory.transports.http.page.app import PageApp

MAX_BYTES = 2 << 30
MAX_AGE_S = 86_400.0  # of a file that was not imported
MAX_NAME_BYTES = 200  # of UTF-8: file systems allow 255
LOOK_AGAIN_BYTES = 16 << 20  # after so many bytes it is checked whether the disk has room for as many more
CHUNK_S = 30.0  # a browser that sends nothing for so long has disconnected
_UNSAFE = re.compile(r"[^\w.\- ]+")


def to_file_name(name: str) -> str:
    """Return a plain file name: no folders, no control characters, not hidden."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")
    end = plain.encode()[-MAX_NAME_BYTES:].decode(errors="ignore")
    return end.lstrip(" .") or "upload"


def get_folder(app: PageApp) -> Path:
    """Return the folder of files dropped onto the page."""
    return app.services.home / UPLOADS


def make_place(uploads: Path) -> Path:
    """Create a new folder for one file.

    Raises:
        InvalidRequestError: it cannot be created, or the upload folder is a link or owned by another user.
    """
    try:
        make_own_folder(uploads)
        directory = uploads / f"upload-{secrets.token_hex(8)}"
        directory.mkdir(mode=0o700)
    except OSError as exc:
        raise InvalidRequestError("file", f"cannot be kept: {exc.strerror or exc}") from exc
    return directory


def remove_upload(path: Path) -> None:
    """Remove an uploaded file, and its folder."""
    if _is_place(path.parent):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()


def remove_old(uploads: Path) -> None:
    """Remove abandoned uploads; links are not followed, and other files stay."""
    before = time.time() - MAX_AGE_S
    with contextlib.suppress(OSError):
        for directory in filter(_is_place, uploads.iterdir()):
            files = list(directory.iterdir())
            if all(path.lstat().st_mtime < before for path in (directory, *files)):
                _remove_place(directory, files)


def _remove_place(directory: Path, files: list[Path]) -> None:
    with contextlib.suppress(OSError):
        for file in files:
            file.unlink()
        directory.rmdir()


def _is_place(path: Path) -> bool:
    """True for the folder of one upload; not for a link to one."""
    try:
        return UPLOAD_NAME.fullmatch(path.name) is not None and stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


async def store_upload(uploads: Path, scope: Scope, receive: Receive) -> Response:
    """Write the body into a new file; return its path and name.

    Raises:
        InvalidRequestError: it is too large or incomplete, or the disk is full; nothing of it remains.
    """
    named = urllib.parse.parse_qs(scope["query_string"].decode("latin-1")).get("name", [""])[0]
    directory = await asyncio.to_thread(make_place, uploads)
    await asyncio.to_thread(remove_old, uploads)
    path = directory / to_file_name(named)
    try:
        await _write_body(path, receive)
    except BaseException as exc:
        await asyncio.to_thread(_remove_place, directory, [path] if path.exists() else [])
        if isinstance(exc, TimeoutError):
            raise InvalidRequestError("file", "did not arrive whole") from None
        if isinstance(exc, OSError):
            raise InvalidRequestError("file", f"cannot be kept: {exc.strerror or exc}") from exc
        raise
    return JSONResponse({"file": f"{directory.name}/{path.name}"})


async def _write_body(path: Path, receive: Receive) -> None:
    size, next_look, folder = 0, 0, path.parent.parent
    with path.open("xb") as file:
        while True:
            message = await asyncio.wait_for(receive(), CHUNK_S)
            if message["type"] != "http.request":
                raise InvalidRequestError("file", "did not arrive whole")
            body = message.get("body", b"")
            size += len(body)
            if size > MAX_BYTES:
                raise InvalidRequestError("file", f"is larger than {MAX_BYTES:,} bytes; use `infinite-memory import`")
            if size >= next_look:
                next_look = size + LOOK_AGAIN_BYTES
                room = len(body) + LOOK_AGAIN_BYTES
                if shortage := await asyncio.to_thread(find_shortage, folder, room, name=folder.name):
                    raise InvalidRequestError(
                        "file", f"cannot be kept. {shortage}; make room, or use `infinite-memory import`"
                    )
            await asyncio.to_thread(file.write, body)
            if not message.get("more_body", False):
                return
