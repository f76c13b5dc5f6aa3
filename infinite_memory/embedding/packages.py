"""Install a few pinned packages, without dependencies, into a separate folder, with this machine's installer.

Why an installer instead of a plain download: pip and uv know the user's package index, its password, proxy and certificates. uv does not
read pip's settings, nor pip uv's: the one that installed this package is tried first. The checksums in the requirement file decide what is
accepted, whichever index serves it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from infinite_memory.errors import EmbeddingError

MAX_REPORTED_LINES = 3
_RETRIES = 2  # pip's default of 5 takes minutes to detect that there is no network
_UV_FOLDERS = (".local/bin", ".cargo/bin")  # in the user's home; programs started by a desktop have a short PATH
_PIP_NAMES = {
    "PIP_INDEX_URL": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "PIP_EXTRA_INDEX_URL": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "PIP_FIND_LINKS": ("UV_FIND_LINKS",),
}
_UNWANTED = {"PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "UV_SYSTEM_PYTHON", "VIRTUAL_ENV"}


def install_packages(requirements: Sequence[Path], folder: Path, work_dir: Path) -> None:
    """Install the packages pinned by *requirements* into *folder*, which afterwards is complete or absent.

    Args:
        requirements: Files that pin every package by version and checksum.
        work_dir: A folder for temporary files, on the same file system as *folder*; the caller empties it.

    Raises:
        EmbeddingError: there is no installer, or none could install the packages.
    """
    problems = []
    for installer in find_installers():
        staging, temporary = work_dir / "staging", work_dir / "tmp"
        for path in (staging, temporary):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        pins = [argument for file in requirements for argument in ("--requirement", str(file))]
        command = [*installer, "install", *_options(installer), "--target", str(staging), *pins]
        done = subprocess.run(
            command, env=_environ(os.environ, temporary), cwd=work_dir, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
        if not done.returncode:
            staging.replace(folder)
            shutil.rmtree(temporary, ignore_errors=True)
            return
        problems.append(f"{_name(installer)} could not fetch its packages: {_reason(done.stdout)}")
    raise EmbeddingError("; ".join(problems) or "neither pip nor uv is here to fetch packages with")


def find_installers() -> list[list[str]]:
    """Return the commands of the available installers, the one that installed this package first."""
    pip = [[sys.executable, "-m", "pip"]] if importlib.util.find_spec("pip") else []
    uv = [[path, "pip"]] if (path := _find_uv()) else []
    bundled = [] if pip else [[sys.executable, str(wheel / "pip")] for wheel in _bundled_wheels()]
    return [*uv, *pip, *bundled] if _installed_by() == "uv" else [*pip, *uv, *bundled]


def _installed_by() -> str:
    try:
        return (importlib.metadata.distribution("infinite-memory").read_text("INSTALLER") or "").strip()
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return ""


def _find_uv() -> str | None:
    """Return the path of uv: as given by uv itself if it runs us, on the PATH, or where its installer puts it."""
    if (named := os.environ.get("UV")) and Path(named).is_file():
        return named
    try:
        folders = [str(Path.home() / folder) for folder in _UV_FOLDERS]
    except RuntimeError:
        folders = []
    return shutil.which("uv") or shutil.which("uv", path=os.pathsep.join([*folders, "/opt/homebrew/bin"]))


def _bundled_wheels() -> list[Path]:
    """Return the pip bundled with Python for new environments; it runs from inside its wheel."""
    spec = importlib.util.find_spec("ensurepip")
    if spec is None or spec.origin is None:  # Debian has it in a separate package
        return []
    return sorted(Path(spec.origin).with_name("_bundled").glob("pip-*.whl"))[-1:]


def _options(installer: Sequence[str]) -> list[str]:
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    if _is_uv(installer):
        return [*options, "--python", sys.executable, "--no-cache", "--no-progress"]
    return [
        *options, "--no-cache-dir", "--no-compile", "--no-input", "--disable-pip-version-check",
        "--progress-bar", "off", "--retries", str(_RETRIES),
    ]  # fmt: skip


def _environ(environ: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """Return the installer's environment: temporary files where there is space for the models, and uv's index for pip too."""
    result = {name: value for name, value in environ.items() if name not in _UNWANTED and not name.startswith("PYTHON")}
    for name, sources in _PIP_NAMES.items():
        values = [value for source in sources if (value := environ.get(source))]
        if values and not environ.get(name):
            result[name] = values[0]
    return result | {name: str(temporary) for name in ("TMPDIR", "TEMP", "TMP")}


def _is_uv(installer: Sequence[str]) -> bool:
    return Path(installer[0]).stem == "uv"


def _name(installer: Sequence[str]) -> str:
    return "uv" if _is_uv(installer) else "pip"


def _reason(output: str) -> str:
    """Return the lines of an installer's output that say why it failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "×", "caused by", "╰"))]
    return " / ".join((errors or lines)[-MAX_REPORTED_LINES:]) or "it said nothing"
