"""Validation of JSON-RPC messages: one object, not a batch, with a usable id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infinite_memory.contracts.mcp import INVALID_PARAMS, INVALID_REQUEST, RpcError

Id = int | str


def check_shape(message: Any) -> None:
    """Reject anything but a single JSON-RPC message.

    Raises:
        RpcError: it is not one.
    """
    if isinstance(message, list):
        raise RpcError(INVALID_REQUEST, "batches are not supported; send one message at a time")
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "a message is a JSON object")
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'jsonrpc: "2.0" was expected')
    if "method" not in message:
        if "id" in message and ("result" in message or "error" in message):
            return
        raise RpcError(INVALID_REQUEST, "method: is required")
    if not isinstance(message["method"], str):
        raise RpcError(INVALID_REQUEST, "method: a text was expected")
    if "id" in message and parse_id(message["id"]) is None:
        raise RpcError(INVALID_REQUEST, "id: a text or a whole number was expected; leave it out for a notification")
    if not isinstance(message.get("params"), dict | None):
        raise RpcError(INVALID_PARAMS, "params: an object was expected")


def get_id(message: Any) -> Id | None:
    """Return the id of a message if it has a valid one."""
    return parse_id(message.get("id")) if isinstance(message, dict) else None


def parse_id(value: Any) -> Id | None:
    """Return *value* if it is a valid request id: 0 and "" are."""
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def describe_request(method: str, params: Mapping[str, Any]) -> str:
    """Return a request's method and the tool that it calls, for the log; without arguments, as they contain memories."""
    name = params.get("name")
    return f"{method[:80]} {name[:80]}" if method == "tools/call" and isinstance(name, str) else method[:80]
