"""The limits of a Memory Server session, from the environment variables of the contract's document."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from infinite_memory.contracts.memory_server.spec import SPOKEN_VERSIONS
from infinite_memory.errors import ConfigError
from infinite_memory.models import MAX_MEMORY_TAGS
from infinite_memory.settings import LimitsSettings

QUERY_CHARS = 1000
TAG_CHARS = 100
MAX_COUNT = 999_999_999
CONTENT_LEVELS = 64  # the store's own limit


@dataclass(frozen=True, slots=True)
class MemoryServerLimits:
    """The limits of a session; ``protocol_version`` is offered to clients that ask for an unsupported one."""

    content_chars: int = 10_000
    tags: int = 20
    default_limit: int = 10
    max_limit: int = 100
    protocol_version: str = "2024-11-05"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> MemoryServerLimits:
        """Read the variables of *environ*; missing ones have their defaults.

        Raises:
            ConfigError: one of them is invalid.
        """
        defaults = cls()
        highest = _count(environ, "SEARCH_MAX_LIMIT", defaults.max_limit)
        return cls(
            _count(environ, "MAX_CONTENT_LENGTH", defaults.content_chars),
            _count(environ, "MAX_TAGS_COUNT", defaults.tags, MAX_MEMORY_TAGS),
            min(_count(environ, "SEARCH_DEFAULT_LIMIT", defaults.default_limit), highest),
            highest,
            _version(environ, defaults.protocol_version),
        )

    def settings(self, general: LimitsSettings) -> LimitsSettings:
        """Return the general limits, overridden by this contract's own."""
        return dataclasses.replace(
            general, tags=self.tags, tag_chars=TAG_CHARS, query_chars=QUERY_CHARS, top_k=self.max_limit
        )


def _version(environ: Mapping[str, str], default: str) -> str:
    """Return the version in *environ*, *default* if it is missing or unsupported (``spec.check_environ`` warns about that)."""
    version = environ.get("MCP_PROTOCOL_VERSION", "").strip()
    return version if version in SPOKEN_VERSIONS else default


def _count(environ: Mapping[str, str], name: str, default: int, max_value: int = MAX_COUNT) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    digits = text.lstrip("0")
    if not digits or not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"environment: {name} = {text!r} is not a whole number of at least 1")
    if len(digits) > len(str(MAX_COUNT)) or int(digits) > max_value:
        raise ConfigError(f"environment: {name} = {text!r} is more than {max_value:,}")
    return int(digits)
