"""Models over HTTP: any server with OpenAI's chat completions API (llama.cpp, Ollama, vLLM, OpenAI itself), and Anthropic's API.

OpenAI-compatible servers get the JSON Schema, if any, as ``response_format``; a server that does not support it gets requests without
it from then on. A busy server (429, 503, 529) is retried after its ``Retry-After``, within the caller's timeout.
The key is read from its file for each request and never appears in messages or logs. A server on this machine is contacted directly,
ignoring proxies of the environment.
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from infinite_memory.errors import (
    ConfigError,
    InfiniteMemoryError,
    ModelRefusedError,
    ModelReplyError,
    ModelUnavailableError,
)
from infinite_memory.llm.base import ChatMessage
from infinite_memory.platform_files import read_regular_text

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

Json = dict[str, Any]

TRIES = 3
BUSY = frozenset({429, 503, 529})
NOT_UNDERSTOOD = frozenset({400, 422, 501})
PAUSE_S = 1.0  # before a retry without ``Retry-After``
REPLY_BYTES = 4 * 1024 * 1024
MAX_KEY_FILE_BYTES = 1 << 16
ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"


class HttpModel:
    """A model behind a URL; created by `of_openai` and `of_anthropic`."""

    def __init__(
        self, name: str, url: str, headers: Callable[[], Mapping[str, str]],
        write: Callable[[str, Sequence[ChatMessage], int], Json], parse: Callable[[Json], str], timeout_s: float,
        *, takes_schema: bool,
    ) -> None:  # fmt: skip
        self._name, self._url, self._headers, self._write, self._parse = name, url, headers, write, parse
        self._timeout_s, self._takes_schema = timeout_s, takes_schema

    @property
    def name(self) -> str:
        return self._name

    async def complete(
        self, system: str, turns: Sequence[ChatMessage], *, max_tokens: int, schema: Mapping[str, Any] | None = None
    ) -> str:
        # In a thread, and lazily: importing takes half a second, and loading the certificates of a client a tenth.
        await asyncio.to_thread(importlib.import_module, "httpx2")
        import httpx2

        body = {"model": self._name} | self._write(system, turns, max_tokens)

        try:
            async with asyncio.timeout(self._timeout_s), await asyncio.to_thread(self._open) as client:
                answer = await self._ask(client, body, schema)
        except InfiniteMemoryError:
            raise
        except TimeoutError:
            raise ModelUnavailableError(f"the model {self._name} did not answer within {self._timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as cause:
            raise ModelUnavailableError(f"the model {self._name} cannot be reached ({type(cause).__name__})") from cause
        except Exception as exc:  # invalid proxy or certificate variables, a key that is not a valid header: any class
            log.warning("a model cannot be asked", exc_info=exc, extra={"event": "model_failed"})
            raise ModelUnavailableError(
                f"the model {self._name} cannot be asked ({type(exc).__name__}); look at the key, and at the proxy and "
                "certificate variables in the environment of the daemon"
            ) from None
        text = self._get_text(answer)
        if not text.strip():
            raise ModelReplyError(f"the model {self._name} gave an empty answer")
        return text.strip()

    def _open(self) -> httpx2.AsyncClient:
        """Open a client; a model on this machine bypasses proxies, which would see the text and cannot reach it anyway."""
        import httpx2

        if not is_on_this_machine(self._url):
            return httpx2.AsyncClient(timeout=self._timeout_s)
        transport = httpx2.AsyncHTTPTransport(trust_env=self._url.casefold().startswith("https:"))
        return httpx2.AsyncClient(timeout=self._timeout_s, trust_env=False, transport=transport)

    async def _ask(self, client: httpx2.AsyncClient, body: Json, schema: Mapping[str, Any] | None) -> Any:
        for remaining in reversed(range(TRIES)):
            response_format = _response_format(schema) if schema is not None and self._takes_schema else {}
            response = await client.post(self._url, json=body | response_format, headers=dict(self._headers()))
            if response.status_code in NOT_UNDERSTOOD and response_format and remaining:
                self._takes_schema = False
                continue
            if response.status_code in BUSY and remaining:
                await asyncio.sleep(_pause_s(response.headers.get("retry-after")))
                continue
            break
        if response.status_code in BUSY:
            raise ModelUnavailableError(f"the model {self._name} has no room (HTTP {response.status_code})")
        if response.status_code in (401, 403):
            raise ModelUnavailableError(
                f"the model {self._name} refused the key (HTTP {response.status_code}); see model.key_file"
            )
        if not response.is_success:
            raise ModelUnavailableError(f"the model {self._name} answered HTTP {response.status_code}")
        if len(response.content) > REPLY_BYTES:
            raise ModelReplyError(f"the model {self._name} sent more than {REPLY_BYTES:,} bytes")
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise ModelReplyError(f"the model {self._name} sent no JSON") from None

    def _get_text(self, answer: Any) -> str:
        try:
            return self._parse(answer)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise ModelReplyError(f"the answer of the model {self._name} has not the form that was expected") from None


def is_on_this_machine(url: str) -> bool:
    """True if the host of *url* is a loopback address, in any notation, or a name of this machine."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").casefold()
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761, section 6.3
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            # Forms that the system's resolver accepts: 127.1, 0x7f000001.
            address = ipaddress.ip_address(socket.inet_aton(host))
        except (OSError, ValueError):
            return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def of_openai(name: str, url: str, key_file: Path | None, timeout_s: float) -> HttpModel:
    """Return a model with OpenAI's chat completions API; *url* ends with the version (``http://127.0.0.1:11434/v1``)."""

    def headers() -> Mapping[str, str]:
        return {} if key_file is None else {"Authorization": f"Bearer {_key(key_file)}"}

    def write(system: str, turns: Sequence[ChatMessage], max_tokens: int) -> Json:
        messages = [{"role": "system", "content": system}, *_messages(turns)]
        return {"messages": messages, "max_tokens": max_tokens, "stream": False}

    def read(answer: Json) -> str:
        choice = answer["choices"][0]
        message = choice["message"]
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            raise ModelRefusedError(f"the model {name} refused to answer")
        return str(message["content"] or "")

    return HttpModel(
        name, f"{url.rstrip('/')}/chat/completions", headers, write, read, timeout_s, takes_schema=True
    )  # fmt: skip


def of_anthropic(name: str, url: str | None, key_file: Path | None, timeout_s: float) -> HttpModel:
    """Return a model with Anthropic's messages API; *url* None is Anthropic itself."""

    def headers() -> Mapping[str, str]:
        key = {} if key_file is None else {"x-api-key": _key(key_file)}
        return {"anthropic-version": ANTHROPIC_VERSION} | key

    def write(system: str, turns: Sequence[ChatMessage], max_tokens: int) -> Json:
        return {"system": system, "messages": _messages(turns), "max_tokens": max_tokens}

    def read(answer: Json) -> str:
        if answer.get("stop_reason") == "refusal":
            raise ModelRefusedError(f"the model {name} refused to answer")
        return "".join(block["text"] for block in answer["content"] if block["type"] == "text")

    return HttpModel(
        name, f"{(url or ANTHROPIC_URL).rstrip('/')}/v1/messages", headers, write, read, timeout_s, takes_schema=False
    )  # fmt: skip


def _response_format(schema: Mapping[str, Any]) -> Json:
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    }


def _messages(turns: Sequence[ChatMessage]) -> list[Json]:
    return [{"role": turn.role.value, "content": turn.text} for turn in turns]


def _key(file: Path) -> str:
    """Return the key, the first line of its file.

    Raises:
        ConfigError: it cannot be read, or is empty.
    """
    try:
        lines = read_regular_text(file, limit_bytes=MAX_KEY_FILE_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"model.key_file {file} cannot be read ({type(exc).__name__})") from None
    if not lines or not lines[0].strip():
        raise ConfigError(f"model.key_file {file} is empty")
    return lines[0].strip()


def _pause_s(retry_after: str | None) -> float:
    """Parse a ``Retry-After`` in seconds; if it is a date or missing, return the default pause."""
    try:
        return max(0.0, float(retry_after)) if retry_after is not None else PAUSE_S
    except ValueError:
        return PAUSE_S
