"""Creates the configured model, if any."""

from __future__ import annotations

from pathlib import Path

from infinite_memory.errors import ConfigError
from infinite_memory.llm.base import ChatModel
from infinite_memory.llm.http_clients import of_anthropic, of_openai
from infinite_memory.settings import ModelSettings


def configured_model(settings: ModelSettings) -> ChatModel | None:
    """Return the configured model, or None.

    Raises:
        ConfigError: the configuration is incomplete.
    """
    if settings.api is None:
        return None
    if settings.name is None:
        raise ConfigError(f"model.api = {settings.api!r} needs model.name, the name of the model at that server")
    key_file = Path(settings.key_file).expanduser() if settings.key_file else None
    if settings.api == "anthropic":
        return of_anthropic(settings.name, settings.url, key_file, settings.timeout_s)
    if settings.url is None:
        raise ConfigError("model.api = 'openai' needs model.url, as http://127.0.0.1:11434/v1")
    return of_openai(settings.name, settings.url, key_file, settings.timeout_s)
