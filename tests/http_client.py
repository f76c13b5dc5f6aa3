"""The HTTP API from outside: a daemon with a port, tokens as a user makes them, and requests with what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.processes import Installation, until

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Api:
    """One token at one daemon's API."""

    web: httpx2.Client
    token: str | None

    def ask(
        self, method: str, path: str, body: Any = None, query: Json | None = None, **headers: str
    ) -> httpx2.Response:
        """Send a request to *path* below /api/v1, or at it where it begins with a slash."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        address = path if path.startswith("/") else f"/api/v1/{path}"
        return self.web.request(method, address, json=body, params=query, headers=sent | headers)

    def get(self, path: str, **query: Any) -> Json:
        """Read what must be there."""
        return good(self.ask("GET", path, query=query))

    def post(self, path: str, **body: Any) -> Json:
        """Do what must work."""
        return good(self.ask("POST", path, body))


def good(reply: httpx2.Response) -> Json:
    """Give the body of a reply that must be good."""
    assert reply.status_code < 300, (reply.status_code, reply.text)
    body: Json = reply.json()
    return body


def refused(reply: httpx2.Response) -> tuple[int, str, str | None]:
    """Give status, code and field of an error, whose form must be the documented one."""
    body = reply.json()
    assert list(body) == ["success", "error"], body
    assert body["success"] is False
    assert list(body["error"]) == ["code", "message", "field", "details"]
    return reply.status_code, body["error"]["code"], body["error"]["field"]


@contextmanager
def serving(installation: Installation) -> Iterator[httpx2.Client]:
    """Start the daemon with a port of its own, and wait until it answers."""
    assert installation.command("daemon", "start").returncode == 0
    with httpx2.Client(base_url=installation.status()["http"]["url"], timeout=60) as web:
        until(lambda: web.get("/healthz").status_code == 200, "the API answers")
        yield web


def owner(installation: Installation, web: httpx2.Client) -> Api:
    """Come with the token of the home's file."""
    return Api(web, Path(installation.status()["http"]["token_file"]).read_text("utf-8").strip())


def make_token(installation: Installation, web: httpx2.Client, *arguments: str) -> Api:
    """Come with a token that `infinite-memory tokens create` makes."""
    done = installation.command("tokens", "create", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return Api(web, json.loads(done.stdout)["token"])
