"""Write a model folder atomically: it is there complete or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from infinite_memory.embedding.manifest import ModelFile


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a folder next to *target* to fill; it replaces *target* at the end, or is removed on an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield folder
        folder.chmod(0o755)
        for file in folder.iterdir():
            _sync(file)
        if target.exists():
            old = folder.with_name(folder.name + "-old")
            target.rename(old)
            folder.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(target: Path) -> None:
    """Remove what a killed `staged` left next to *target*; the caller ensures that no other process works there."""
    for folder in target.parent.glob(f".{target.name}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def describe(path: Path) -> ModelFile:
    """Return the manifest entry of the file *path*."""
    with path.open("rb") as file:
        return ModelFile(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
