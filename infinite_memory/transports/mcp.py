"""The Model Context Protocol over our JSON-RPC front: versions, envelopes, lists, subscriptions, progress, logging, questions.

What is offered (tools, resources, prompts) comes from a contract, an `McpServer`. This module needs no SDK: it serves
before the SDK is loaded, and the SDK's transports carry the same sessions over HTTP (`http`).

Two eras are supported. Up to 2025-11-25 a session begins with `initialize`. From 2026-07-28 on every request carries version and
capabilities in ``params._meta``, and there is no session: each request is handled by itself, so a client may probe with one
and continue with the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infinite_memory import __version__
from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.mcp import (
    APP_EXTENSION,
    APP_TYPE,
    INVALID_PARAMS,
    Answer,
    Json,
    McpServer,
    RpcError,
    complete,
    get_prompt,
)  # fmt: skip
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, ModelRefusedError, NotFoundError
from infinite_memory.transports.jsonrpc import RpcCall, RpcSession
from infinite_memory.transports.subscriptions import PendingNotifications, Subscriptions, check_length, check_number

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002  # up to 2025-11-25; later versions use -32602

META = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = META + "protocolVersion", META + "clientCapabilities"
LOG_LEVEL_KEY, SERVER_KEY, SUBSCRIPTION_KEY = META + "logLevel", META + "serverInfo", META + "subscriptionId"

LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
SHARED_METHODS = LISTS | {"tools/call", "prompts/get", "resources/read", "completion/complete"}
HANDSHAKE_METHODS = SHARED_METHODS | {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
COMMANDS = frozenset({"tools/call", "prompts/get", "resources/list", "resources/read", "completion/complete"})
"""Methods that need a turn: work on the memory. Others are answered at once, or stay open as a request to listen does."""

MODERN_METHODS = SHARED_METHODS | {"server/discover", "subscriptions/listen"}

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
FIRST_LEVEL = "warning"  # until the client sets a level
TTL_MS = {"tools/list": 60_000, "prompts/list": 60_000, "resources/templates/list": 60_000, "server/discover": 60_000,
          "resources/list": 0, "resources/read": 0}  # fmt: skip
COMPLETIONS = 100  # values in one answer, by the protocol


class InputRequired(Exception):
    """A request of the later era needs answers from the client, which must send it again with them."""

    def __init__(self, requests: Json, mark: str) -> None:
        super().__init__("input is required")
        self.requests, self.mark = requests, mark


@dataclass(slots=True)
class McpCall:
    """A request with what MCP knows about its client."""

    rpc: RpcCall
    version: str
    capabilities: Json
    log_level: str | None

    @property
    def is_modern(self) -> bool:
        """Whether it belongs to the era without sessions."""
        return self.version in MODERN_VERSIONS

    @property
    def wants_progress(self) -> bool:
        token = _meta(self.rpc.params).get("progressToken")
        return isinstance(token, int | str) and not isinstance(token, bool)

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        if not self.wants_progress:
            return
        params: Json = {"progressToken": _meta(self.rpc.params)["progressToken"], "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        await self.rpc.notify("notifications/progress", params)

    async def log(self, level: str, data: Any) -> None:
        if self.log_level is not None and LEVELS.index(level) >= LEVELS.index(self.log_level):
            await self.rpc.notify("notifications/message", {"level": level, "logger": "infinite-memory", "data": data})

    async def confirm(self, question: str, mark: str) -> Answer:
        """Ask the user a yes-or-no question.

        Raises:
            InputRequired: in the later era, until the client sends the request again with the answer to this very question.
        """
        kinds = self.capabilities.get("elicitation")
        if not isinstance(kinds, dict) or (kinds and "form" not in kinds):
            return Answer.NOT_ASKED
        params: Json = {"message": question, "requestedSchema": {"type": "object", "properties": {}}}
        if self.is_modern:
            responses = self.rpc.params.get("inputResponses")
            answer = responses.get("confirm") if isinstance(responses, dict) else None
            is_same = self.rpc.params.get("requestState") == mark
            if not isinstance(answer, dict) or (_answer(answer) is Answer.ACCEPTED and not is_same):
                params["mode"] = "form"
                raise InputRequired({"confirm": {"method": "elicitation/create", "params": params}}, mark)
            return _answer(answer)
        if self.version < "2025-06-18":
            return Answer.NOT_ASKED
        try:
            return _answer(await self.rpc.ask("elicitation/create", params))
        except RpcError:
            return Answer.NOT_ASKED

    @property
    def can_sample(self) -> bool:
        # The later era has no server requests: a question ends the call there, and what was stored would be stored again.
        return not self.is_modern and isinstance(self.capabilities.get("sampling"), dict)

    async def sample(self, params: Json) -> Json:
        try:
            return await self.rpc.ask("sampling/createMessage", params)
        except RpcError as exc:
            raise ModelRefusedError(f"the client's model did not answer: {exc}") from None


class McpSession:
    """One client of an `McpServer`, behind the JSON-RPC front."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._version = HANDSHAKE_VERSIONS[-1]
        self._capabilities: Json = {}
        self.client_info: Any = None  # the client's name and version, as sent
        self._log_level = FIRST_LEVEL
        self._subscribed = Subscriptions(server.get_topic)
        self._listening: set[Subscriptions] = set()
        self._unwatch: Callable[[], None] | None = None
        self._notifying: asyncio.Task[None] | None = None

    def serves(self, call: RpcCall) -> bool:
        methods = self._server.profile.methods
        if methods is not None:
            return call.method in methods
        return call.method in (MODERN_METHODS if _is_modern(call.params) else HANDSHAKE_METHODS)

    def allowed_before_initialize(self, call: RpcCall) -> bool:
        return call.method == "ping" or _is_modern(call.params) or not self._server.profile.needs_initialize

    def effect(self, call: RpcCall) -> Effect:
        name = call.params.get("name") if call.method == "tools/call" else None
        return self._server.effect(name) if isinstance(name, str) else Effect.READS

    def takes_turn(self, call: RpcCall) -> bool:
        return call.method in COMMANDS

    async def initialize(self, params: Json, session: RpcSession) -> Json:
        version = params.get("protocolVersion")
        fallback = self._server.profile.fallback_version
        newest = fallback if fallback in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self._version = version if version in HANDSHAKE_VERSIONS else newest
        capabilities, self.client_info = params.get("capabilities"), params.get("clientInfo")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        return {
            "protocolVersion": self._version,
            "capabilities": self._offered(self._capabilities)
            | ({"logging": {}} if self._server.profile.capabilities is None else {}),
            "serverInfo": self._info(),
            "instructions": self._server.instructions,
        }

    async def notified(self, method: str, params: Json, session: RpcSession) -> None:
        if method == "notifications/initialized" and session.is_initialized and self._unwatch is None:
            pending = PendingNotifications(self._subscribed)
            self._unwatch = self._server.watch(pending.add)
            self._notifying = asyncio.create_task(pending.send_all(session.notify), name="notifications")
            for warning in self._server.welcome():
                data = {"level": "warning", "logger": "infinite-memory", "data": warning}
                await session.notify("notifications/message", data)

    def failure(self, exc: InfiniteMemoryError) -> RpcError:
        return self._server.failure(exc)

    async def on_disconnect(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        if self._notifying is not None:
            self._notifying.cancel()
            await asyncio.wait({self._notifying})

    async def handle(self, call: RpcCall) -> Json:
        if not _is_modern(call.params):
            return await self._handle(McpCall(call, self._version, self._capabilities, self._log_level))
        mcp, self.client_info = _from_envelope(call), _meta(call.params).get("io.modelcontextprotocol/clientInfo")
        try:
            result = await self._handle(mcp)
        except InputRequired as required:
            result = {"resultType": "input_required", "inputRequests": required.requests, "requestState": required.mark}
        return self._stamped(call.method, result)

    async def _handle(self, call: McpCall) -> Json:
        params, server = call.rpc.params, self._server
        match call.rpc.method:
            case "ping":
                return {}
            case "server/discover":
                return {
                    "supportedVersions": list(MODERN_VERSIONS),
                    "capabilities": self._offered(call.capabilities),
                    "instructions": server.instructions,
                }
            case "tools/list":
                return {"tools": _only_page(params, self._list_tools(call.capabilities))}
            case "tools/call":
                return await server.call_tool(_text(params, "name"), _object(params, "arguments"), call)
            case "resources/list":
                return {"resources": _only_page(params, await server.resources())}
            case "resources/templates/list":
                return {"resourceTemplates": _only_page(params, server.templates())}
            case "resources/read":
                return {"contents": await self._read(call, _text(params, "uri"))}
            case "resources/subscribe":
                self._subscribe(_text(params, "uri"))
                return {}
            case "resources/unsubscribe":
                self._subscribed.discard(_text(params, "uri"))
                return {}
            case "subscriptions/listen":
                return await self._listen(call)
            case "prompts/list":
                return {"prompts": _only_page(params, server.prompts())}
            case "prompts/get":
                return await get_prompt(server, _text(params, "name"), _object(params, "arguments"))
            case "completion/complete":
                return await self._complete(params)
            case "logging/setLevel":
                if (level := _text(params, "level")) not in LEVELS:
                    raise RpcError(INVALID_PARAMS, f"level: one of {', '.join(LEVELS)} was expected")
                self._log_level = level
                return {}
        raise AssertionError(call.rpc.method)  # `serves` allows nothing else

    async def _read(self, call: McpCall, uri: str) -> list[Json]:
        check_length(uri)
        try:
            return await self._server.read(uri)
        except NotFoundError as exc:
            code = INVALID_PARAMS if call.is_modern else RESOURCE_NOT_FOUND
            raise RpcError(code, f"Resource not found: {exc}", {"uri": uri}) from None

    async def _complete(self, params: Json) -> Json:
        argument = _object(params, "argument")
        ref = _object(params, "ref")
        if ref.get("type") not in ("ref/prompt", "ref/resource"):
            raise RpcError(INVALID_PARAMS, "ref.type: ref/prompt or ref/resource was expected")
        value = str(argument.get("value") or "")
        completion = await complete(self._server, ref, _text(argument, "name"), value)
        has_more = len(completion) > COMPLETIONS
        return {"completion": {"values": completion[:COMPLETIONS], "total": len(completion), "hasMore": has_more}}

    # changes

    def _subscribe(self, uri: str) -> None:
        if uri not in self._subscribed:
            check_number(self._count_subscriptions(), [uri], "uri")
            self._subscribed.add(uri)

    def _count_subscriptions(self) -> int:
        return len(self._subscribed) + sum(map(len, self._listening))

    async def _listen(self, call: McpCall) -> Json:
        """Notify the client of changes while its request is open (2026-07-28)."""
        topics = _object(call.rpc.params, "notifications")
        requested = topics.get("resourceSubscriptions")
        uris = [uri for uri in requested if isinstance(uri, str)] if isinstance(requested, list) else []
        check_number(self._count_subscriptions(), uris, "notifications.resourceSubscriptions")
        subscriptions = Subscriptions(self._server.get_topic)
        for uri in uris:
            subscriptions.add(uri)
        honored: Json = {name: True for name in ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
                         if topics.get(name) is True}  # fmt: skip
        if uris:
            honored["resourceSubscriptions"] = uris
        mark = {"_meta": {SUBSCRIPTION_KEY: call.rpc.id}}
        pending = PendingNotifications(subscriptions, with_lists="resourcesListChanged" in honored)
        unwatch = self._server.watch(pending.add)
        ending = asyncio.ensure_future(call.rpc.session.input_ended.wait())
        ending.add_done_callback(lambda _: pending.close())
        self._listening.add(subscriptions)
        try:
            await call.rpc.notify("notifications/subscriptions/acknowledged", mark | {"notifications": honored})
            await pending.send_all(lambda method, params: call.rpc.notify(method, mark | params))
        finally:
            self._listening.discard(subscriptions)
            unwatch()
            ending.cancel()
        return mark

    # envelopes

    def _info(self) -> Json:
        about = {"name": self._server.name, "title": self._server.title, "version": __version__}
        return about | self._server.profile.info

    def _list_tools(self, capabilities: Json) -> list[Json]:
        """List the tools; clients that show MCP Apps learn which of them has one."""
        apps = self._server.profile.apps if _shows_apps(capabilities) else {}
        return [
            tool | {"_meta": {"ui": {"resourceUri": apps[tool["name"]]}}} if tool["name"] in apps else tool
            for tool in self._server.tools()
        ]

    def _offered(self, capabilities: Json) -> Json:
        profile = self._server.profile
        if profile.capabilities is not None:
            return profile.capabilities
        has_apps = bool(profile.apps) and _shows_apps(capabilities)
        return ({"extensions": {APP_EXTENSION: {"mimeTypes": [APP_TYPE]}}} if has_apps else {}) | {
            "tools": {"listChanged": False},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": False},
            "completions": {},
        }

    def _stamped(self, method: str, result: Json) -> Json:
        """Add the fields of every result in the later era."""
        meta = {SERVER_KEY: self._info()} | result.get("_meta", {})
        stamped = {"resultType": "complete"} | result | {"_meta": meta}
        if method in TTL_MS and stamped["resultType"] == "complete":
            stamped |= {"ttlMs": TTL_MS[method], "cacheScope": "private"}
        return stamped


def _meta(params: Json) -> Json:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _is_modern(params: Json) -> bool:
    return VERSION_KEY in _meta(params)


def _shows_apps(capabilities: Json) -> bool:
    """True if a client announces support for MCP Apps in HTML."""
    extensions = capabilities.get("extensions")
    settings = extensions.get(APP_EXTENSION) if isinstance(extensions, dict) else None
    types = settings.get("mimeTypes") if isinstance(settings, dict) else None
    return isinstance(types, list) and APP_TYPE in types


def _from_envelope(call: RpcCall) -> McpCall:
    meta = _meta(call.params)
    version, capabilities, level = meta[VERSION_KEY], meta.get(CAPABILITIES_KEY), meta.get(LOG_LEVEL_KEY)
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"_meta: {VERSION_KEY} is a text")
    if CAPABILITIES_KEY not in meta:
        raise RpcError(INVALID_PARAMS, f"_meta: {CAPABILITIES_KEY} is required")
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return McpCall(
        call, version, capabilities if isinstance(capabilities, dict) else {}, level if level in LEVELS else None
    )


def _answer(result: Json) -> Answer:
    try:
        return Answer(result.get("action"))
    except ValueError:
        return Answer.CANCELLED


def _text(params: Json, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise InvalidRequestError(name, "a text was expected")
    return value


def _object(params: Json, name: str) -> Json:
    value = params.get(name)
    if not isinstance(value, dict | None):
        raise InvalidRequestError(name, "an object was expected")
    return value or {}


def _only_page(params: Json, entries: list[Json]) -> list[Json]:
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "cursor: not one of ours; every list is one page")
    return entries
