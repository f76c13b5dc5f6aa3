"""The folder of an exported model: its location, and the small JSON file that describes its contents.

A folder holds ``manifest.json``, ``tokenizer.json``, one ONNX file for each precision and, if it was traced here, reference vectors to
check the model against (`verification`). It is written completely and renamed into place, so a folder with a manifest is complete. Standard
library only.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infinite_memory.errors import ConfigError, EmbeddingError
from infinite_memory.paths import cache_folder, check_private_folder

DEFAULT_MODEL = "all-MiniLM-L6-v2"
SECOND_MODEL = "universal-sentence-encoder-multilingual-3"
PREPARED_DIMS = {DEFAULT_MODEL: 384, SECOND_MODEL: 512}
"""The models that are prepared here if they are missing, and the length of their vectors."""

MANIFEST_FILE = "manifest.json"
TOKENIZER_FILE = "tokenizer.json"
REFERENCE_FILE = "reference.json"
FORMAT = 1

SETUP_COMMAND = "infinite-memory setup"

_DEFAULT_ORGANISATION = "sentence-transformers/"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """An ONNX file of a folder, by name."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of an exported model.

    ``max_tokens`` counts the special tokens; ``window_tokens`` is the size of a memory's windows without them if that is less than the
    model's limit, else 0. ``pooling`` is "inside" if the graph returns unit vectors, "mean" if it returns one vector per token, to be
    averaged and normalised here. ``files`` maps a precision to its file.
    """

    name: str
    dim: int
    max_tokens: int
    pooling: str
    source: str
    source_sha256: str
    files: Mapping[str, ModelFile] = field(default_factory=dict)
    window_tokens: int = 0

    def save(self, folder: Path) -> None:
        """Write the manifest into *folder*."""
        written = json.dumps({"format": FORMAT, **asdict(self)}, indent=2, ensure_ascii=False)
        (folder / MANIFEST_FILE).write_text(written + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of *folder*.

        Raises:
            EmbeddingError: there is none, or it is invalid.
        """
        path = folder / MANIFEST_FILE
        try:
            fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if fields.pop("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            files = {precision: ModelFile(**file) for precision, file in fields.pop("files").items()}
            return cls(files=files, **fields)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise EmbeddingError(
                f"the model folder {folder.name!r} has no usable {MANIFEST_FILE}; make it again: {SETUP_COMMAND}"
            ) from exc


def short_name(model: str) -> str:
    """Return a model's name as used in messages and paths: without the default organisation."""
    return model.removeprefix(_DEFAULT_ORGANISATION)


def models_folders() -> tuple[Path, ...]:
    """Return the folders searched for models: in the environment that runs us (a checkout's, an image's), then in the user's cache.

    New ones are created in the last, because an environment may belong to someone else, or be discarded after this run.
    """
    environment = Path(sys.prefix) / "share" / "infinite-memory" / "models"
    try:
        return environment, cache_folder(os.environ) / "models"
    except ConfigError:  # neither a home folder nor a home of the memory; writing there reports that
        return (environment,)


def get_folder(model: str) -> Path:
    """Return the folder of the model called *model*: where it is, or where it will be created."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", short_name(model)).strip(".-") or "unnamed"
    folders = [folder / name for folder in models_folders()]
    return next(filter(is_exported, folders), folders[-1])


def check_private(folder: Path) -> None:
    """Reject a folder in which another user could have put code or a model.

    Raises:
        EmbeddingError: it is one.
    """
    try:
        check_private_folder(folder)
    except OSError as exc:
        raise EmbeddingError(
            f"{folder} is not used for models: {exc.strerror}; make it yours alone, or set XDG_CACHE_HOME to a folder of your own"
        ) from exc


def check_cached(folder: Path) -> None:
    """Reject a model in the user's cache that another user could have put there; one shipped with the program is fine.

    Raises:
        EmbeddingError: it is one.
    """
    if folder.parent in models_folders()[1:]:
        check_private(folder.parent)
        check_private(folder)


def is_exported(folder: Path) -> bool:
    """True if *folder* is an exported model."""
    return (folder / MANIFEST_FILE).is_file()
