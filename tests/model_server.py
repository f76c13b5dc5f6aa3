"""A language model's server whose every answer is scripted: it speaks HTTP and JSON for real, and thinks nothing.

A test puts answers in line; each request takes the next one. What was asked is kept, to be looked at.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One scripted answer. ``hangs`` keeps the client waiting until the server ends; ``meanwhile`` happens before it is given."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    meanwhile: Callable[[], Any] | None = None


def openai(text: str | None, **more: Any) -> Answer:
    """Say *text* as OpenAI's chat completions do; *more* are members of the message."""
    message = {"role": "assistant", "content": text} | more
    return Answer(body=json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())


def anthropic(text: str, stop_reason: str = "end_turn") -> Answer:
    """Say *text* as Anthropic's messages do."""
    return Answer(body=json.dumps({"content": [{"type": "text", "text": text}], "stop_reason": stop_reason}).encode())


class ModelServer:
    """The server; ``url`` is its address, ``asked`` what came: path, headers and body of each request."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.asked: list[tuple[str, Mapping[str, str], Json]] = []
        self._over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, dict(self.headers.items()), body))
                answer = outer.answers.popleft() if outer.answers else Answer(500)
                if answer.hangs:
                    outer._over.wait()
                    return
                if answer.meanwhile is not None:
                    answer.meanwhile()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let go of everybody who waits, and end."""
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def model_server() -> Iterator[ModelServer]:
    """Give a server for the length of a ``with`` block."""
    server = ModelServer()
    try:
        yield server
    finally:
        server.close()
