"""`setup --fastest`: measure which precision of the model is fastest on this machine, and set it for a home without memories.

A home that is in use keeps its vector space: there the result is only reported, with the setting to change, because another precision
means embedding all memories again.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.cli.connect import replace_text
from infinite_memory.errors import ConfigError, EmbeddingError
from infinite_memory.platform_files import make_folder

if TYPE_CHECKING:
    from infinite_memory.config import Config
    from infinite_memory.embedding.preparation import Preparation
    from infinite_memory.paths import Home

Json = dict[str, Any]


def choose(home: Home, config: Config, file: Path, prepare: Callable[[Preparation], None]) -> Json:
    """Measure, and write the choice to *file*, the settings of *home*, if nothing is stored yet; prints what was done.

    Args:
        prepare: Prepares a model and shows progress.

    Returns:
        The outcome for programs: ``measured`` is the choice, ``used`` the precision of the home from now on.
    """
    from infinite_memory.embedding.arithmetic import INT8, compare
    from infinite_memory.embedding.export import model_name
    from infinite_memory.embedding.manifest import get_folder
    from infinite_memory.embedding.preparation import Preparation

    settings = config.embedding
    try:
        prepare(Preparation(settings.model, get_folder(model_name(settings.model)), precision=INT8))
        comparison = compare(settings.model, settings.truncate_dim)
    except (EmbeddingError, ConfigError) as exc:
        print(f"infinite-memory: {exc}", file=sys.stderr)
        return {"ready": False, "error": str(exc), "error_code": exc.code}
    choice, used = comparison.choice, settings.precision
    print(f"arithmetic: {comparison}")
    line = f'embedding.precision = "{choice}"'
    if choice == used:
        print(f"arithmetic: {used}, as it is set")
    elif _is_in_use(home, config):
        print(f"arithmetic: this home keeps {used}; with {line} in the settings all memories are embedded again")
    elif not _write_precision(file, choice):
        print(f"arithmetic: to use it, set {line} in {file}, which has settings of [embedding] already")
    else:
        used = choice
        print(f"arithmetic: {line} is set in {file}")
    return {"ready": True, "measured": choice, "used": used, "gain": round(comparison.gain, 2)}


def _is_in_use(home: Home, config: Config) -> bool:
    """True if memories may be stored already; always true for an external server, which is not queried."""
    folders = (home.path / "mongodb", home.sidecars)
    return config.mongodb.uri is not None or any(folder.is_dir() and any(folder.iterdir()) for folder in folders)


def _write_precision(file: Path, precision: str) -> bool:
    """Add the setting to *file*; False if the file already has its table, which is left as the user wrote it."""
    text = file.read_text("utf-8-sig") if file.is_file() else ""
    if "embedding" in tomllib.loads(text):
        return False
    make_folder(file.parent)
    room = "\n" if text and not text.endswith("\n") else ""
    blank = "\n" if text else ""
    replace_text(file, f'{text}{room}{blank}[embedding]\nprecision = "{precision}"\n')
    return True
