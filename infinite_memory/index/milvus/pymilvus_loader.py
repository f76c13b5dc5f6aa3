"""Import pymilvus without pandas, which it imports for functions that are not used here.

pandas and what it brings along take 37 MiB, 69 where pyarrow is installed, and .4 s. pymilvus needs it for tables given as `DataFrame`, and
to infer types of fields in its older interface. While it is imported, placeholders stand for pandas, which have no more than the names that
it takes from there: `DataFrame` for its signatures, and functions that import pandas when they are called. Whatever else is asked of them,
then or later, is answered by the real one, and so is everything that another thread asks.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PANDAS = "pandas"
_TYPES = "pandas.api.types"
_NAMES = (_PANDAS, "pandas.api", _TYPES)
_FUNCTIONS = frozenset({"infer_dtype", "is_array_like", "is_float", "is_list_like", "is_scalar"})

_FORKS = "GRPC_ENABLE_FORK_SUPPORT"
"""gRPC's setting, read when the first channel is opened: if it is on, gRPC starts its threads again in a forked child.

Children only start other programs here, and such a thread once took the descriptors of one's output.
"""

_importing = threading.Lock()


def load_pymilvus() -> ModuleType:
    """Import pymilvus.

    Raises:
        ImportError: it is not installed.
    """
    os.environ.setdefault(_FORKS, "false")
    if "pymilvus" in sys.modules or _PANDAS in sys.modules:
        return importlib.import_module("pymilvus")
    with _importing:
        spec = importlib.util.find_spec(_PANDAS) if _PANDAS not in sys.modules else None
        if spec is None:
            return importlib.import_module("pymilvus")
        placeholders = {name: _Placeholder(name, threading.get_ident()) for name in _NAMES}
        placeholders[_PANDAS].__spec__ = spec  # `find_spec` reads it
        sys.modules.update(placeholders)
        try:
            return importlib.import_module("pymilvus")
        finally:
            _remove(placeholders)


class _Placeholder(ModuleType):
    """Stands for one module while pymilvus is imported, and passes on what it cannot answer."""

    def __init__(self, name: str, thread: int) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self._thread = thread

    def __getattr__(self, attribute: str) -> Any:
        if threading.get_ident() == self._thread and sys.modules.get(self.__name__) is self:
            if self.__name__ == _PANDAS and attribute == "DataFrame":
                return _DataFrame
            if self.__name__ == _TYPES and attribute in _FUNCTIONS:
                return _deferred(attribute)
            if attribute == "__path__":  # the import system asks whether names that are imported may be modules
                raise AttributeError(attribute)
        _remove({name: module for name in _NAMES if isinstance(module := sys.modules.get(name), _Placeholder)})
        return getattr(importlib.import_module(self.__name__), attribute)


class _DataFrame:
    """Stands for ``pandas.DataFrame`` in the signatures of pymilvus."""


def _deferred(name: str) -> Callable[..., Any]:
    """Return a function that imports pandas when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(_TYPES), name)(*arguments, **options)

    return call


def _remove(placeholders: Mapping[str, ModuleType]) -> None:
    for name, placeholder in placeholders.items():
        if sys.modules.get(name) is placeholder:
            del sys.modules[name]
