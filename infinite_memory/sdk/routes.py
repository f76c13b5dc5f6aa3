"""The requests that the SDK sends: their names, which are the server's, and where they stand over HTTP. A test compares both."""

from __future__ import annotations

from typing import NamedTuple

API = "/api/v1"


class Route(NamedTuple):
    """Where a request stands. One that ``repeats`` may be sent again when its answer was lost: it changes nothing."""

    method: str
    path: str
    repeats: bool = False


ROUTES = {
    "store_memory": Route("POST", f"{API}/memories"),
    "list_memories": Route("GET", f"{API}/memories", repeats=True),
    "forget_memories": Route("DELETE", f"{API}/memories"),
    "read_memory": Route("GET", f"{API}/memories/{{memory_id}}", repeats=True),
    "change_memory": Route("PATCH", f"{API}/memories/{{memory_id}}"),
    "forget_memory": Route("DELETE", f"{API}/memories/{{memory_id}}"),
    "read_history": Route("GET", f"{API}/memories/{{memory_id}}/history", repeats=True),
    "restore_memory": Route("POST", f"{API}/memories/{{memory_id}}/restore"),
    "search": Route("POST", f"{API}/search", repeats=True),
    "chat": Route("POST", f"{API}/chat"),
    "list_scopes": Route("GET", f"{API}/scopes", repeats=True),
}
