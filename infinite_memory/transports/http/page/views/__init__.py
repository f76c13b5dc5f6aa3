"""The views. Importing this registers them in the table of `routing`; each module is one view, with a template of its name."""

from infinite_memory.transports.http.page.views import (
    account,
    backups,
    duplicates,
    forgetting,
    health,
    imports,
    memory,
    scopes,
    search,
    timeline,
    tokens,
    work,
)

__all__ = [
    "account",
    "backups",
    "duplicates",
    "forgetting",
    "health",
    "imports",
    "memory",
    "scopes",
    "search",
    "timeline",
    "tokens",
    "work",
]
