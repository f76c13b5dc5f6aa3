"""A stand-in for the model APIs that assistants speak to, on loopback: it says one sentence, whatever is asked, and keeps what was asked.

It speaks Anthropic's messages, OpenAI's responses and Gemini's `generateContent`, as streams of server-sent events.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

USAGE = {
    "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
}  # fmt: skip


class ModelApi:
    """The stand-in; ``url`` is its address, ``asked`` the body of each request as text."""

    def __init__(self, answer: str) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._reply("application/json", "{}")

            def do_HEAD(self) -> None:
                self._reply("application/json", "")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                outer.asked.append(body)
                events = _events(self.path, answer)
                written = (f"{_name(one)}data: {json.dumps(one)}\n\n" for one in events)
                self._reply("text/event-stream", "".join(written))

            def _reply(self, kind: str, text: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[ModelApi]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _name(event: Json) -> str:
    """Write the line that names an event; Gemini's have no name."""
    return f"event: {event['type']}\n" if "type" in event else ""


def _events(path: str, answer: str) -> list[Json]:
    """Return the events of an answer in the form of the API that has *path*."""
    if "/messages" in path:
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "stand-in", "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": answer}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
    if "/responses" in path:
        content = [{"type": "output_text", "text": answer, "annotations": []}]
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        response = {"id": "resp_1", "object": "response", "created_at": 0, "model": "stand-in", "usage": USAGE}
        return [
            {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response | {"status": "completed", "output": [item]}},
        ]
    said = {"role": "model", "parts": [{"text": answer}]}
    return [{"candidates": [{"content": said, "finishReason": "STOP", "index": 0}], "modelVersion": "stand-in"}]
