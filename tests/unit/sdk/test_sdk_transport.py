"""The SDK without a daemon: its table of routes, its forms, and how it behaves when the other side does not."""

from __future__ import annotations

import ast
import http.server
import inspect
import json
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import infinite_memory
from infinite_memory import proofs
from infinite_memory.sdk.async_memory import AsyncMemory
from infinite_memory.sdk.errors import (
    ConflictError,
    DeniedError,
    InvalidError,
    MissingError,
    RateLimitError,
    UnavailableError,
    UntrustedError,
    to_error,
)
from infinite_memory.sdk.memory import Memory
from infinite_memory.sdk.results import read_memories, read_stored
from infinite_memory.sdk.transport import ROUTES
from infinite_memory.transports.http.api.routes import ROUTES as SERVED

TOKEN = "im_secret"
FORM = {
    "memory_id": "a" * 24,
    "content": "tea",
    "scope": "Global",
    "tags": ["x"],
    "timestamp": "2026-11-28T14:05:00.000Z",
}
SDK = Path(infinite_memory.__file__).parent / "sdk"


class Server:
    """An HTTP server that gives scripted answers, or closes the connection where the script says None."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.answers: list[tuple[int, Any] | None] = []
        self.asked: list[tuple[str, str, str | None, Any]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                if "/api/v1/proof?" in self.path:
                    self._say(200, json.dumps(outer.prove(self.path)).encode())
                    return
                outer.asked.append((self.command, self.path, self.headers["Authorization"], body))
                answer = outer.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                self._say(answer[0], answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode())

            def _say(self, status: int, said: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_PATCH = do_DELETE = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def prove(self, path: str) -> dict[str, str]:
        nonce = urllib.parse.parse_qs(path.partition("?")[2])["nonce"][0]
        address = f"127.0.0.1:{self._server.server_port}"
        return {"address": address, "proof": proofs.sign(proofs.derive_key(self.token), proofs.BY_HTTP, address, nonce)}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


@pytest.fixture
def memory(server: Server) -> Iterator[Memory]:
    with Memory(url=f"{server.url}/below/", token=TOKEN, timeout_s=5) as one:
        yield one


def test_the_routes_are_those_of_the_server() -> None:
    served = {one.name: (one.method, one.path, one.writes) for one in SERVED}
    for name, route in ROUTES.items():
        assert served[name][:2] == (route.method, route.path)
        assert not (route.repeats and served[name][2]), f"{name} writes and must not be repeated"


def test_importing_it_needs_the_standard_library_alone() -> None:
    for file in SDK.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.split(".")[0]
                assert top in sys.stdlib_module_names or top == "infinite_memory", f"{file.name} imports {name}"


def test_requests_stand_where_the_documents_say(server: Server, memory: Memory) -> None:
    server.answers = [(200, {"memories": [FORM], "total": 1, "next_cursor": None}), (201, FORM | {"outcome": "stored"})]
    memory.list_memories(user_id="ada", tags=["a,b", "c"], limit=3)
    memory.add("tea", tags=["x"], timestamp="2026-11-28")
    assert server.asked[0][:3] == (
        "GET", "/below/api/v1/memories?user_id=ada&tags=%5B%22a%2Cb%22%2C+%22c%22%5D&limit=3", "Bearer im_secret",
    )  # fmt: skip
    assert server.asked[1][3] == {"content": "tea", "tags": ["x"], "metadata": {"timestamp": "2026-11-28"}}


def test_an_id_cannot_leave_its_place_in_the_path(server: Server, memory: Memory) -> None:
    server.answers = [(200, {"memory_ids": ["x"], "forget_mode": "hard"})]
    assert memory.delete("../scopes?x=1", hard=True).hard
    assert server.asked[0][1] == "/below/api/v1/memories/..%2Fscopes%3Fx%3D1?forget_mode=hard"


def test_a_read_is_sent_again_when_its_answer_is_lost(server: Server, memory: Memory) -> None:
    server.answers = [None, (200, FORM)]
    assert memory.get("a" * 24).content == "tea"
    assert len(server.asked) == 2


def test_a_write_is_never_sent_twice(server: Server, memory: Memory) -> None:
    server.answers = [None]
    with pytest.raises(UnavailableError, match="may or may not") as caught:
        memory.add("tea")
    assert (len(server.asked), caught.value.code) == (1, "CONNECTION_ERROR")


@pytest.mark.parametrize("kind", ["another token", "another address", "no JSON", "no proof"])
def test_a_server_that_does_not_prove_that_it_knows_the_token_is_told_nothing(kind: str) -> None:
    server = Server("im_other" if kind == "another token" else TOKEN)
    if kind == "another address":  # as of somebody who passes the question on to the daemon
        server.prove = lambda path: {  # type: ignore[method-assign]
            "proof": proofs.sign(proofs.derive_key(TOKEN), proofs.BY_HTTP, "127.0.0.1:1", path.rpartition("nonce=")[2])
        }
    elif kind != "another token":
        server.prove = lambda _: "x" if kind == "no JSON" else {}  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(UntrustedError, match="was not shown") as caught, Memory(url=server.url, token=TOKEN) as memory:
        memory.add("tea")
    assert server.asked == []
    assert caught.value.code == ("UNTRUSTED_SERVER" if kind.startswith("no") else "AUTHENTICATION_FAILED")
    server.close()


def test_the_far_end_of_a_tunnel_is_believed_where_it_is_named(server: Server) -> None:
    far = "127.0.0.1:8765"
    server.prove = lambda path: {  # type: ignore[method-assign]
        "proof": proofs.sign(proofs.derive_key(TOKEN), proofs.BY_HTTP, far, path.rpartition("nonce=")[2])
    }
    server.answers = [(200, FORM)]
    with Memory(url=server.url, token=TOKEN, tunnel_to=far) as memory:
        assert memory.get("a" * 24).content == "tea"
    with pytest.raises(InvalidError, match="tunnel_to"):
        Memory(url=server.url, token=TOKEN, tunnel_to="there")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    gone = Server()
    gone.close()
    with pytest.raises(UnavailableError, match="cannot be reached"):
        Memory(url=gone.url).get("x")


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://there", "http://"])
def test_a_text_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidError) as caught:
        Memory(url=url)
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InvalidError), (413, InvalidError), (401, DeniedError), (403, DeniedError), (404, MissingError),
     (409, ConflictError), (429, RateLimitError), (503, UnavailableError)],
)  # fmt: skip
def test_each_status_has_its_exception(status: int, kind: type[Exception]) -> None:
    error = {"code": "SOME_CODE", "message": "what is wrong", "field": "tags[2]", "details": {"retry_after_s": 7}}
    problem = to_error(status, {"success": False, "error": error})
    assert isinstance(problem, kind)
    assert (problem.code, problem.field, problem.status, str(problem)) == (
        "SOME_CODE",
        "tags[2]",
        status,
        "what is wrong",
    )
    if isinstance(problem, RateLimitError):
        assert problem.retry_after_s == 7


def test_a_reply_of_somebody_in_between_is_an_error_all_the_same(server: Server, memory: Memory) -> None:
    server.answers = [(502, b"<html>bad gateway</html>")]
    with pytest.raises(infinite_memory.ApiError, match="502"):
        memory.add("tea")


def test_forms_become_values_and_what_a_newer_server_adds_is_left_out() -> None:
    stored = read_stored(FORM | {"outcome": "stored", "newer": 1, "facts": ["a"], "title": None})
    assert (stored.tags, stored.facts, stored.title, stored.outcome) == (("x",), ("a",), None, "stored")
    assert stored.timestamp.isoformat() == "2026-11-28T14:05:00+00:00"
    found = read_memories({"results": [FORM], "scopes_searched": ["Global"]})
    assert (len(found), found[0].content, found[:1][0].scope, found.total) == (1, "tea", "Global", 1)


def test_home_and_url_exclude_each_other() -> None:
    with pytest.raises(InvalidError, match="not both"):
        Memory(home="/tmp", url="http://localhost")


def test_the_public_names_are_listed_before_they_are_imported() -> None:
    assert set(infinite_memory.__all__) <= set(dir(infinite_memory))


def test_asyncio_lacks_no_method_and_no_argument() -> None:
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(AsyncMemory, name)).parameters == inspect.signature(method).parameters, (
                name
            )


def test_a_name_that_is_not_public_is_missing() -> None:
    with pytest.raises(AttributeError, match="Memries"):
        infinite_memory.Memries  # noqa: B018
