"""Files that are dropped onto the page: each has a place of its own in the home, and nothing else is written or removed for it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.errors import InvalidRequestError
from infinite_memory.platform_files import RESERVE_BYTES
from infinite_memory.transports.http.page.uploads import (
    LOOK_AGAIN_BYTES,
    MAX_AGE_S,
    make_place,
    remove_old,
    remove_upload,
    store_upload,
    to_file_name,
)

LONG_AGO = time.time() - MAX_AGE_S - 60


def upload(uploads: Path, name: str, *parts: bytes, is_whole: bool = True) -> Path:
    """Send a file as a browser does; returns where it lies."""
    messages: list[Mapping[str, Any]] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.request", "body": b""} if is_whole else {"type": "http.disconnect"})

    async def receive() -> Mapping[str, Any]:
        return messages.pop(0)

    response = asyncio.run(store_upload(uploads, {"query_string": f"name={name}".encode()}, receive))
    return uploads / json.loads(bytes(response.body))["file"]


def make_old(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_two_files_of_one_name_do_not_take_each_others_place(tmp_path: Path) -> None:
    paths = [upload(tmp_path / "uploads", "notes.json", str(number).encode()) for number in range(3)]
    assert [(path.name, path.read_text()) for path in paths] == [("notes.json", str(number)) for number in range(3)]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (paths[0].parent, tmp_path / "uploads"))


def test_a_name_leads_nowhere_and_hides_nothing() -> None:
    assert [to_file_name(name) for name in ("../../etc/passwd", "C:\\notes.json", "...", ".hidden", "a\nb")] == [
        "passwd", "notes.json", "upload", "hidden", "a_b"
    ]  # fmt: skip


def test_a_long_name_of_any_letters_fits_into_a_folder_with_its_ending(tmp_path: Path) -> None:
    for name in ("漢" * 90 + ".json", "é" * 300 + ".md", "a" * 300 + ".csv"):
        path = upload(tmp_path / "uploads", name, b"x")
        assert path.suffix == Path(name).suffix
        assert to_file_name(path.name) == path.name


def test_a_dropped_file_that_nobody_imported_goes_a_day_later(tmp_path: Path) -> None:
    uploads = tmp_path / "uploads"
    old, new = upload(uploads, "old.csv", b"x"), upload(uploads, "new.csv", b"x")
    make_old(old, old.parent)
    latest = upload(uploads, "latest.csv", b"x")
    assert (old.parent.exists(), new.exists(), latest.exists()) == (False, True, True)
    for path in (new, latest):
        remove_upload(path)
    assert list(uploads.iterdir()) == []


def test_only_what_this_program_put_there_is_removed(tmp_path: Path) -> None:
    """The home may be a folder in which other things lie, and a link may lead to the user's documents."""
    documents, uploads = tmp_path / "documents", tmp_path / "uploads"
    (documents / "upload-0123456789abcdef").mkdir(parents=True)
    (uploads / "photos").mkdir(parents=True)
    files = [
        documents / "thesis.txt",
        documents / "upload-0123456789abcdef" / "thesis.txt",
        uploads / "a.txt",
        uploads / "photos" / "b",
    ]
    for file in files:
        file.write_text("precious")
    (uploads / "upload-fedcba9876543210").symlink_to(documents)
    for folder in (tmp_path, documents, uploads):
        make_old(*folder.rglob("*"))
    upload(uploads, "notes.json", b"x")
    remove_old(uploads)
    remove_upload(uploads / "upload-fedcba9876543210" / "thesis.txt")
    remove_upload(uploads / "photos" / "b")
    assert [file.read_text() for file in files] == ["precious"] * 4


def test_nothing_is_written_or_removed_behind_a_link(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir(mode=0o755)
    (documents / "thesis.txt").write_text("precious")
    make_old(documents / "thesis.txt")
    (tmp_path / "uploads").symlink_to(documents)
    with pytest.raises(InvalidRequestError, match="cannot be kept") as failure:
        upload(tmp_path / "uploads", "a.jsonl", b"x")
    assert failure.value.field == "file"
    assert (names_in(documents), documents.stat().st_mode & 0o777) == (["thesis.txt"], 0o755)


def test_a_disk_is_not_filled_and_nothing_is_left_of_what_does_not_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads, part = tmp_path / "uploads", bytes(LOOK_AGAIN_BYTES // 2)
    make_place(uploads).rmdir()
    with pytest.raises(InvalidRequestError, match="did not arrive whole"):
        upload(uploads, "a.jsonl", b"x", is_whole=False)
    assert names_in(uploads) == []
    free = [RESERVE_BYTES + 4 * LOOK_AGAIN_BYTES, RESERVE_BYTES + LOOK_AGAIN_BYTES]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (100 << 30, 0, free.pop(0)))
    with pytest.raises(InvalidRequestError, match="No space left in the folder uploads") as failure:
        upload(uploads, "b.jsonl", *[part] * 8)
    assert failure.value.field == "file"
    assert (names_in(uploads), free) == ([], [])
