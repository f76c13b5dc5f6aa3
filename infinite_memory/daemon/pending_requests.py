"""Requests of a client program that have no reply yet, as seen by the stdio proxy. Standard library only.

When the daemon exits, each of them gets one error, in order. In the action loop replies come in the order of the lines, so the
lines are kept. In JSON-RPC they carry the id of their request; a line without a usable id (one that is not JSON, or too
long to read) is answered with the id null, and counted.

The protocol is detected as in the daemon (`transports.protocol_detection`): by the contract, else by the
first request. Lines before that are answered in the action loop's form, each by itself.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from infinite_memory.transports.strict_json import Speaks, detect_protocol

Json = dict[str, Any]

MAX_STORED_BYTES = 4096  # a thousand lines of 16 MiB may wait at once


class PendingRequests:
    """The requests of one session that wait for their replies. Not thread-safe: its user has a lock."""

    def __init__(self, speaks: Speaks | None = None) -> None:
        self.speaks = speaks  # None before the first request
        self._handshake: tuple[bytes | None, bytes | None] = None, None  # the lines `initialize` and `initialized`
        self._handshake_key = ""
        self._lines: deque[bytes] = deque()
        self._calls: dict[str, None] = {}  # ids, as JSON, in order
        self._unnamed = 0
        self._dropped: set[str] = set()  # ids of replayed requests whose replies the client already has

    def __len__(self) -> int:
        return len(self._lines) + len(self._calls) + self._unnamed

    def note(self, line: bytes | None) -> None:
        """Register the request in *line*; None stands for a line that is too long to read."""
        if self.speaks is None and line is not None:
            self.speaks = detect_protocol(_trimmed(line))
        if self.speaks is not Speaks.JSON_RPC:
            self._lines.append(_short(line or b""))
            return
        message = None if line is None else parse(line)
        if not isinstance(message, dict):
            self._unnamed += 1
        elif "method" in message:
            self._record_call(message, line or b"")
        elif "id" not in message or not ("result" in message or "error" in message):  # else it answers the daemon
            self._unnamed += 1

    def _record_call(self, message: Json, line: bytes) -> None:
        method, first = message["method"], self._handshake[0]
        if method == "initialize" and first is None:
            self._handshake, self._handshake_key = (line, None), json.dumps(message.get("id"))
        elif method == "notifications/initialized":
            self._handshake = first, line
        elif method == "notifications/cancelled" and isinstance(message.get("params"), dict):
            self._calls.pop(json.dumps(message["params"].get("requestId")), None)  # it gets no answer
        if "id" in message:
            if is_id(message["id"]):
                self._calls[json.dumps(message["id"])] = None
            else:
                self._unnamed += 1

    def drop_handshake(self) -> bytes:
        """Return the lines that restore the session's state in a new daemon; the reply to them is not for the client."""
        first, second = self._handshake
        if first is None:
            return b""
        self._dropped.add(self._handshake_key)
        return first + (second or b"")

    def settle(self, line: bytes) -> bool:
        """Settle the request that a line of the daemon answers; False if the line must not reach the client."""
        if self._lines:  # in JSON-RPC these precede the first request, and are answered before it
            self._lines.popleft()
            return True
        if self.speaks is not Speaks.JSON_RPC:
            return True
        message = parse(line)
        if isinstance(message, dict) and "id" in message and "method" not in message:
            key = json.dumps(message["id"])
            if key == "null":
                self._unnamed = max(0, self._unnamed - 1)
            self._calls.pop(key, None)
            if key in self._dropped:
                self._dropped.discard(key)
                return False
            if key == self._handshake_key and "error" in message:
                self._forget_handshake()
        return True

    def fail(self, reason: str) -> list[bytes]:
        """Remove all waiting requests and return an error for each."""
        lines, calls, unnamed = list(self._lines), list(self._calls), self._unnamed
        if self._handshake_key in self._calls:
            self._forget_handshake()
        self._lines.clear()
        self._calls.clear()
        self._dropped.clear()
        self._unnamed = 0
        replies: list[Json] = []
        for line in lines:
            replies.append({"status": "ERROR", "error": reason, "error_code": "CONNECTION_ERROR"} | _echo(line))
        for key in (*calls, *["null"] * unnamed):
            replies.append({"jsonrpc": "2.0", "id": json.loads(key), "error": {"code": -32603, "message": reason}})
        return [json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for reply in replies]

    def _forget_handshake(self) -> None:
        """It failed, as far as the client knows, so the client will retry."""
        self._handshake, self._handshake_key = (None, None), ""


def _trimmed(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _short(line: bytes) -> bytes:
    """Return the part of an action loop line to keep: all of a short one, of a long one the fields that its reply echoes."""
    return line if len(line) <= MAX_STORED_BYTES else json.dumps(_echo(line)).encode()


def _echo(line: bytes) -> Json:
    message = parse(line) if b"request_id" in line else None
    return {"request_id": message["request_id"]} if isinstance(message, dict) and "request_id" in message else {}


def parse(line: bytes) -> Any:
    """Parse a line of JSON; None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def is_id(value: object) -> bool:
    """True if *value* is a valid id of a JSON-RPC request: the daemon answers others with the id null."""
    return isinstance(value, str | int) and not isinstance(value, bool)
