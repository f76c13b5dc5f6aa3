"""The settings for one hook event: the current files, and the client's own variables for capture and recall."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infinite_memory.config import Config, load_config
from infinite_memory.hooks.run import CARRIED
from infinite_memory.paths import CHECKOUT_CONFIG_FILE

MAX_KEPT = 16  # clients with settings of their own


class EventSettings:
    """Caches settings until a file changes: loading and validating them takes a tenth of a recall."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._state: tuple[Any, ...] = ()
        self._configs: dict[tuple[tuple[str, str], ...], Config] = {}

    def read(self, event: Mapping[str, Any]) -> Config:
        """Return the settings for an event.

        Capture and recall variables in the daemon's own environment come from the client that started it and are ignored here.

        Raises:
            ConfigError: a setting is invalid; nothing is captured then.
        """
        state = (_get_state(CHECKOUT_CONFIG_FILE), _get_state(self._file))
        if state != self._state or len(self._configs) >= MAX_KEPT:
            self._state, self._configs = state, {}
        environ = {name: value for name, value in os.environ.items() if not name.startswith(CARRIED)}
        own = carried_by(event)
        key = tuple(sorted(own.items()))
        if (config := self._configs.get(key)) is None:
            config = self._configs[key] = load_config(self._file, environ | own)
        return config


def carried_by(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables carried by an event."""
    named = event.get("environ")
    if not isinstance(named, dict):
        return {}
    return {str(name): str(value) for name, value in named.items() if str(name).startswith(CARRIED)}


def _get_state(file: Path) -> tuple[int, ...] | None:
    """Return a fingerprint that changes with the file; None if it does not exist."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
