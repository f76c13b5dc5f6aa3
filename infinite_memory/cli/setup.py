"""`setup`: prepare what a memory needs and this machine lacks, mainly the embedding model, and report what prevents it.

`serve` does the same automatically in the background; this command is for doing it up front, for container images, and for models
other than the default.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.cli import arithmetic_choice, daemon_requests, outcome
from infinite_memory.cli.progress import add_option, show_progress
from infinite_memory.errors import ConfigError, EmbeddingError, InfiniteMemoryError, StoreUnavailableError

if TYPE_CHECKING:
    from infinite_memory.config import Config
    from infinite_memory.embedding.preparation import Preparation

Json = dict[str, Any]

PARTS = "mongodb", "model", "second_model", "arithmetic"
_VERSION_S = 30.0


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    parser = commands.add_parser("setup", parents=[common], help="make the model and the server ready, once")
    parser.add_argument(
        "--model", metavar="NAME", help="another embedding model than the settings name: a name of the hub, or a folder"
    )
    parser.add_argument(
        "--fastest", action="store_true",
        help="measure whether int8 arithmetic is faster here and as good, and choose it for a home that has no memories yet",
    )  # fmt: skip
    add_option(parser)
    outcome.add_option(parser)


def run(options: argparse.Namespace) -> int:
    """Prepare what is missing; 0 if everything is ready."""
    home, config = daemon_requests.home_and_config(options)
    with outcome.collect_outcome(options) as result:
        result["mongodb"] = _set_up_server(config)
        result["model"] = _set_up_model(options, config)
        if options.fastest and result["model"]["ready"]:
            file = Path(options.config or home.config_file)
            result["arithmetic"] = arithmetic_choice.choose(
                home, config, file, lambda preparation: _prepare(preparation, quiet=options.quiet)
            )
        result["second_model"] = _set_up_second_model(options, config)
        is_ready = all(part is None or part["ready"] for part in (result.get(name) for name in PARTS))
        result["status"] = "OK" if is_ready else "ERROR"
    return 0 if is_ready else 1


def _report_fault(exc: InfiniteMemoryError) -> Json:
    """Report a problem on standard error, and return it for the outcome."""
    print(f"infinite-memory: {exc}", file=sys.stderr)
    return {"ready": False, "error": str(exc), "error_code": exc.code}


def _set_up_server(config: Config) -> Json:
    if config.mongodb.uri:
        print("MongoDB: the server that mongodb.uri names is used")
        return {"ready": True, "binary": None, "version": None}
    from infinite_memory.mongod.binary import find_binary

    try:
        binary = find_binary(Path(config.mongodb.binary).expanduser() if config.mongodb.binary else None)
        version = _server_version(binary)
    except StoreUnavailableError as exc:
        return _report_fault(exc)
    print(f"MongoDB: {version} is ready ({binary})")
    return {"ready": True, "binary": str(binary), "version": version}


def _server_version(binary: Path) -> str:
    """Return the version of a mongod.

    Raises:
        StoreUnavailableError: it does not run on this machine; the message says why.
    """
    import subprocess  # imported lazily: the thin client imports this module

    from infinite_memory.mongod.binary import why_not_running

    try:
        done = subprocess.run(
            [str(binary), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise StoreUnavailableError(f"{binary} does not run: {exc}") from exc
    if done.returncode:
        raise StoreUnavailableError(why_not_running(binary, done.returncode, done.stderr or done.stdout))
    return done.stdout.splitlines()[0].removeprefix("db version ") if done.stdout else "mongod"


def _set_up_model(options: argparse.Namespace, config: Config) -> Json:
    from infinite_memory.embedding.export import model_name
    from infinite_memory.embedding.manifest import get_folder
    from infinite_memory.embedding.preparation import Preparation

    model = options.model or config.embedding.model
    exports = bool(options.model) and Path(options.model).is_dir()  # a folder with weights or an exported model
    if (used := None if exports else _find_usable(model, config)) is not None:
        print(f"model: {used} is ready")
        return {"ready": True, "name": model, "folder": None}
    target = get_folder(model_name(model))
    try:
        _prepare(Preparation(model, target, precision=config.embedding.precision), quiet=options.quiet)
    except EmbeddingError as exc:
        return _report_fault(exc)
    print(f"model: {model} is ready ({target})")
    if options.model and options.model != config.embedding.model:
        print(f'to use it: embedding.model = "{target if exports else model}" in the settings')
    return {"ready": True, "name": model, "folder": str(target)}


def _set_up_second_model(options: argparse.Namespace, config: Config) -> Json | None:
    """Prepare the second model if it is configured to be used at once; otherwise None: the first text that needs it triggers that."""
    from infinite_memory.embedding.manifest import SECOND_MODEL, get_folder, is_exported
    from infinite_memory.embedding.preparation import Preparation

    if config.embedding.second_model != "always":
        return None
    target = get_folder(SECOND_MODEL)
    try:
        if not is_exported(target):
            _prepare(Preparation(SECOND_MODEL, target), quiet=options.quiet)
    except EmbeddingError as exc:
        return _report_fault(exc)
    print(f"second model: {SECOND_MODEL} is ready ({target})")
    return {"ready": True, "name": SECOND_MODEL, "folder": str(target)}


def _find_usable(model: str, config: Config) -> str | None:
    """Return the name of *model* if it is installed and can be loaded."""
    from infinite_memory.embedding.factory import open_embedder

    settings = config.embedding
    try:
        embedder = open_embedder(model, truncate_dim=settings.truncate_dim, precision=settings.precision)
        embedder.load()
    except (EmbeddingError, ConfigError):  # for example, a precision that its file does not have
        return None
    return embedder.space


def _prepare(preparation: Preparation, *, quiet: bool) -> None:
    try:
        if quiet:
            preparation.run()
        else:
            _run_with_progress(preparation)
    finally:
        preparation.stop()


def _run_with_progress(preparation: Preparation) -> None:
    steps: list[str] = []
    with show_progress("setup", sys.stderr) as progress:

        def on_progress(step: str, percent: int) -> None:
            if steps[-1:] != [step]:
                steps.append(step)
                print(f"infinite-memory setup: the model: {step}", file=sys.stderr, flush=True)
            progress(percent, 100)

        preparation.run(on_progress)


COMMANDS = {"setup": run}
