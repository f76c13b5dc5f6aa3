"""`setup --fastest`: measure which arithmetic of the model pays on this machine, and set it for a home that has no memories yet.

A home that is in use keeps its vector space: there the measurement is only reported, with what to set, for another arithmetic means that
all memories are embedded again.
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
    """Measure, and write the choice into *file*, the settings of *home*, where nothing is stored yet; says what was done.

    Args:
        prepare: Makes a model ready, and shows how far that is.

    Returns:
        What programs are told: ``measured`` is the choice, ``used`` what the home has from now on.
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
    """True if memories may be stored already; of a server elsewhere nobody knows without asking it."""
    folders = (home.path / "mongodb", home.sidecars)
    return config.mongodb.uri is not None or any(folder.is_dir() and any(folder.iterdir()) for folder in folders)


def _write_precision(file: Path, precision: str) -> bool:
    """Add the setting to *file*; False where its table is there already, for the user's own lines stay as they are."""
    text = file.read_text("utf-8-sig") if file.is_file() else ""
    if "embedding" in tomllib.loads(text):
        return False
    make_folder(file.parent)
    room = "\n" if text and not text.endswith("\n") else ""
    blank = "\n" if text else ""
    replace_text(file, f'{text}{room}{blank}[embedding]\nprecision = "{precision}"\n')
    return True
