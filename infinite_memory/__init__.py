"""InfiniteMemory: a long-term memory for assistants that stays on the user's machine.

Public names are imported lazily (PEP 562), so that the thin client loads only the standard library.
"""

TYPE_CHECKING = False  # importing `typing` takes a hook as long as all its other imports together
if TYPE_CHECKING:
    from infinite_memory.sdk.async_memory import AsyncMemory as AsyncMemory
    from infinite_memory.sdk.errors import ApiError as ApiError
    from infinite_memory.sdk.memory import Memory as Memory

__version__ = "0.2.0"

__all__ = ["ApiError", "AsyncMemory", "Memory", "__version__"]

_HOMES = {"ApiError": "sdk.errors", "AsyncMemory": "sdk.async_memory", "Memory": "sdk.memory"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
