"""What the engine's tests share: whole memories, as the lifecycle's tests open them."""

from __future__ import annotations

from tests.store.lifecycle.conftest import make_open, mongo_uri, open_memory

__all__ = ["make_open", "mongo_uri", "open_memory"]
