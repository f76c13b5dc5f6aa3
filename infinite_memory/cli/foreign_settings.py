"""Environment variables that belong to the contracts we speak and not to us: what of them is followed, and what is said of the rest.

Those with a setting of ours behind them are copied to its variable, unless that is set; some travel to the daemon as they are, for
the contract itself to read. Standard library only: `serve` imports this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping

CARRIED: Mapping[str, tuple[str, ...]] = {
    "memory-server": (
        "MAX_CONTENT_LENGTH", "MAX_TAGS_COUNT", "SEARCH_DEFAULT_LIMIT", "SEARCH_MAX_LIMIT", "MCP_PROTOCOL_VERSION",
    ),
}  # fmt: skip
"""Variables that the contract reads."""

_IGNORED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "memory-server": (
        ("DATABASE_URL", "memories are kept in MongoDB (setting mongodb.uri)"),
        ("MCP_DEBUG_LOG_PATH", "logs are in the home's logs folder"),
        ("DB_MAX_POOL_SIZE", "MongoDB's client keeps its own pool"),
        ("DB_IDLE_TIMEOUT", "MongoDB's client keeps its own pool"),
        ("DB_QUERY_TIMEOUT", "the setting is mongodb.timeout_s, in seconds"),
        ("EMBEDDINGS_POOLING", "the model's own pooling is used"),
        ("EMBEDDINGS_NORMALIZE", "vectors are always of unit length"),
        ("EMBEDDINGS_MAX_RETRIES", "what could not be embedded is embedded later by itself"),
    ),
}
_DEFAULTS = {"EMBEDDINGS_POOLING": "mean", "EMBEDDINGS_NORMALIZE": "true"}  # what we do anyway is worth no warning

_LEVELS = {
    "error": "ERROR",
    "warn": "WARNING",
    "warning": "WARNING",
    "info": "INFO",
    "debug": "DEBUG",
    "trace": "DEBUG",
}
_DEFAULT_MODEL = "all-MiniLM-L6-v2"


def _model(value: str) -> str | None:
    """Give our name of a model; the default one has several homes on the hub."""
    return _DEFAULT_MODEL if value.rsplit("/", 1)[-1] == _DEFAULT_MODEL else value


def _level(value: str) -> str | None:
    return _LEVELS.get(value.strip().lower())


def _filter_level(value: str) -> str | None:
    """Give the most talkative level of a filter such as ``warn,store=debug``."""
    named = [_LEVELS[word] for word in re.findall(r"[a-z]+", value.lower()) if word in _LEVELS]
    order = ("DEBUG", "INFO", "WARNING", "ERROR")
    return min(named, key=order.index) if named else None


_COPIED: Mapping[str, tuple[tuple[str, str, Callable[[str], str | None]], ...]] = {
    "memory-server": (
        ("EMBEDDINGS_MODEL", "INFINITE_MEMORY_EMBEDDING__MODEL", _model),
        ("LOG_LEVEL", "INFINITE_MEMORY_LOG__LEVEL", _level),
    ),
    "palace": (("RUST_LOG", "INFINITE_MEMORY_LOG__LEVEL", _filter_level),),
}


def adopt(contract: str, environ: MutableMapping[str, str]) -> list[str]:
    """Bring the variables of *contract* to ours in *environ*; gives a warning for each that is set and not followed."""
    warnings = []
    for theirs, ours, translated in _COPIED.get(contract, ()):
        if not (value := environ.get(theirs, "").strip()):
            continue
        if (found := translated(value)) is None:
            warnings.append(f"{theirs} = {value!r} is not understood and was ignored")
        else:
            environ.setdefault(ours, found)
    for name, why in _IGNORED.get(contract, ()):
        value = environ.get(name, "").strip()
        if value and value.lower() != _DEFAULTS.get(name):
            warnings.append(f"{name} is ignored: {why}")
    return warnings
