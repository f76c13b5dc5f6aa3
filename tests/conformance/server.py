"""MCP servers for `@modelcontextprotocol/conformance`: the native contract, and one with the tools that the suite asks for.

The suite cannot send a token, so these servers ask for none; all else is what the daemon runs. The demonstration server holds
nothing of the memory: it shows that sessions, streams, questions, progress and logs are as the suite wants them.

    python -m tests.conformance.server      /mcp/native and /mcp/demonstration at the URL that it prints once it answers, until SIGTERM
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infinite_memory.bootstrap import Application, new_session
from infinite_memory.config import load_config
from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.mcp import INVALID_PARAMS, Json, Listener, Profile, RpcError
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, NotFoundError
from infinite_memory.paths import Home
from infinite_memory.settings import HttpSettings
from infinite_memory.transports.http.asgi import Receive, Scope, Send
from infinite_memory.transports.http.server import HttpServer
from infinite_memory.transports.mcp import McpCall, McpSession

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
        "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
WAV = base64.b64encode(b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00"
                       b"\x02\x00\x10\x00data\x02\x00\x00\x00\x00\x00").decode()  # fmt: skip
PAUSE_S = 0.05
NO_ARGUMENTS: Json = {"type": "object", "properties": {}}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def image() -> Json:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, said: str, kind: str = "text/plain") -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


CONTENTS: dict[str, list[Json]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "json_schema_2020_12_tool": [text("ok")],
}
SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
DEFAULTS: Json = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
ENUMS: Json = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}
ASKS: dict[str, Json] = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "test_elicitation_sep1034_defaults": DEFAULTS,
    "test_elicitation_sep1330_enums": ENUMS,
}
OTHERS = (
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_sampling",
    "test_reconnection",
)


class Demonstration:
    """The server that the suite describes."""

    name = "demonstration"
    title = "Demonstration"
    instructions = "For the conformance suite."
    profile = Profile()

    def tools(self) -> list[Json]:
        schemas = {
            "json_schema_2020_12_tool": SCHEMA,
            "test_sampling": _with_text("prompt"),
            "test_elicitation": _with_text("message"),
        }
        return [
            {
                "name": name,
                "description": f"Of the conformance suite: {name}",
                "inputSchema": schemas.get(name, NO_ARGUMENTS),
            }
            for name in (*CONTENTS, *ASKS, *OTHERS)
        ]

    async def call_tool(self, name: str, arguments: Json, call: Any) -> Json:
        assert isinstance(call, McpCall)
        if name in CONTENTS:
            return {"content": CONTENTS[name]}
        if name in ASKS:
            schema = {"type": "object", "properties": ASKS[name]}
            message = str(arguments.get("message") or "Please fill in")
            answer = await call.rpc.ask("elicitation/create", {"message": message, "requestedSchema": schema})
            return {
                "content": [
                    text(f"Elicitation completed: action={answer.get('action')}, content={answer.get('content')}")
                ]
            }
        match name:
            case "test_tool_with_logging":
                for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
                    await call.log("info", said)
                    await asyncio.sleep(PAUSE_S)
            case "test_tool_with_progress":
                for done in (0, 50, 100):
                    await call.progress(done, 100)
                    await asyncio.sleep(PAUSE_S)
            case "test_error_handling":
                return {"content": [text("This tool intentionally returns an error for testing")], "isError": True}
            case "test_sampling":
                messages = [{"role": "user", "content": text(str(arguments.get("prompt")))}]
                answer = await call.rpc.ask("sampling/createMessage", {"messages": messages, "maxTokens": 100})
                return {"content": [text(f"LLM response: {answer.get('content')}")]}
            case "test_reconnection":
                await asyncio.sleep(PAUSE_S)
            case _:
                raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
        return {"content": [text("done")]}

    def effect(self, tool: str) -> Effect:
        return Effect.READS

    async def resources(self) -> list[Json]:
        return [
            {"uri": "test://static-text", "name": "static-text", "mimeType": "text/plain", "description": "A text"},
            {
                "uri": "test://static-binary",
                "name": "static-binary",
                "mimeType": "image/png",
                "description": "An image",
            },
            {
                "uri": "test://watched-resource",
                "name": "watched",
                "mimeType": "text/plain",
                "description": "To subscribe to",
            },
        ]

    def templates(self) -> list[Json]:
        return [{"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}]

    async def read(self, uri: str) -> list[Json]:
        if uri == "test://static-binary":
            return [{"uri": uri, "mimeType": "image/png", "blob": PNG}]
        if uri in ("test://static-text", "test://watched-resource"):
            return [{"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."}]
        if uri.startswith("test://template/") and uri.endswith("/data"):
            number = uri.removeprefix("test://template/").removesuffix("/data")
            said = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
            return [{"uri": uri, "mimeType": "application/json", "text": said}]
        raise NotFoundError(uri)

    def prompts(self) -> list[Json]:
        def takes(*names: str) -> list[Json]:
            return [{"name": name, "description": name, "required": True} for name in names]

        return [
            {"name": "test_simple_prompt", "description": "A text", "arguments": []},
            {"name": "test_prompt_with_arguments", "description": "Two arguments", "arguments": takes("arg1", "arg2")},
            {
                "name": "test_prompt_with_embedded_resource",
                "description": "A resource",
                "arguments": takes("resourceUri"),
            },
            {"name": "test_prompt_with_image", "description": "An image", "arguments": []},
        ]

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Json:
        match name:
            case "test_simple_prompt":
                contents = [text("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                contents = [text(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")]
            case "test_prompt_with_embedded_resource":
                contents = [embedded(arguments["resourceUri"], "Embedded resource content for testing."),
                            text("Please process the embedded resource above.")]  # fmt: skip
            case "test_prompt_with_image":
                contents = [image(), text("Please analyze the image above.")]
            case _:
                raise InvalidRequestError("name", f"{name} is not a prompt")
        return {"messages": [{"role": "user", "content": content} for content in contents]}

    async def complete(self, ref: Json, argument: str, value: str) -> list[str]:
        return [one for one in ("test one", "test two") if one.startswith(value)]

    def get_topic(self, uri: str) -> str | None:
        return None

    def watch(self, listener: Listener) -> Callable[[], None]:
        return lambda: None

    def welcome(self) -> list[str]:
        return []

    def failure(self, problem: InfiniteMemoryError) -> RpcError:
        return RpcError(INVALID_PARAMS, str(problem))


def _with_text(name: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


class Unlocked(HttpServer):
    """The daemon's HTTP side, as if each request had brought its token."""

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = (b"authorization", f"Bearer {self.owner.read()}".encode())
        await super()._app({**scope, "headers": [*scope["headers"], token]}, receive, send)


async def serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder), explicit=True)
        config = load_config(home.config_file, {})
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with Application(config, home) as app:
            native = lambda: app.mcp(new_session(config, os.environ))  # noqa: E731
            contracts: Mapping[str, Callable[[], McpSession]] = {
                "native": native,
                "demonstration": lambda: McpSession(Demonstration()),
            }
            server = Unlocked(HttpSettings(port=0), home.path, contracts, body_bytes=config.limits.line_bytes)
            server.start()
            await app.engine()
            assert app.services is not None
            await app.services.embeddings.ready()
            print(server.about()["url"], flush=True)
            await stop.wait()
            await server.close()


if __name__ == "__main__":
    asyncio.run(serve())
