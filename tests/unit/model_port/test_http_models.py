"""Models over HTTP against a scripted server: what is asked, what is read, and every way in which a model can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory.config import ModelSettings
from infinite_memory.errors import (
    ConfigError,
    ModelError,
    ModelRefusedError,
    ModelReplyError,
    ModelUnavailableError,
)
from infinite_memory.model_port.base import ChatModel, Role, Turn, read_object
from infinite_memory.model_port.choose import configured_model
from infinite_memory.model_port.sampling import Json, SampledModel
from tests.model_server import Answer, ModelServer, anthropic, model_server, openai

TURNS = [Turn(Role.USER, "tea?"), Turn(Role.ASSISTANT, "yes"), Turn(Role.USER, "green?")]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as one:
        yield one


def make_model(server: ModelServer, api: str = "openai", **settings: object) -> ChatModel:
    url = server.url if api == "openai" else server.url.removesuffix("/v1")
    given = {"api": api, "url": url, "name": "small", "timeout_s": 5.0} | settings
    model = configured_model(ModelSettings(**given))  # type: ignore[arg-type]
    assert model is not None
    return model


def ask(model: ChatModel) -> str:
    return asyncio.run(model.complete("be brief", TURNS, max_tokens=9))


def test_chat_completions_are_asked_as_openai_servers_expect(server: ModelServer, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    server.answers.append(openai(" green it is "))
    assert ask(make_model(server, key_file=str(key))) == "green it is"
    path, headers, body = server.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer s3cret"
    assert body["model"] == "small"
    assert body["max_tokens"] == 9
    assert [one["role"] for one in body["messages"]] == ["system", "user", "assistant", "user"]


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_a_server_is_held_to_a_schema_and_asked_without_where_it_knows_none(server: ModelServer) -> None:
    server.answers += [openai("first"), Answer(400), openai("second"), openai("third")]
    model = make_model(server)

    def ask_held() -> str:
        return asyncio.run(model.complete("be brief", TURNS, max_tokens=9, schema=SCHEMA))

    assert [ask_held() for _ in range(3)] == ["first", "second", "third"]
    held = [body.get("response_format", {}).get("json_schema", {}).get("schema") for _, _, body in server.asked]
    assert held == [SCHEMA, SCHEMA, None, None]


def test_messages_are_asked_as_anthropic_expects(server: ModelServer, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret")
    server.answers.append(anthropic("green"))
    assert ask(make_model(server, "anthropic", key_file=str(key))) == "green"
    path, headers, body = server.asked[0]
    assert path == "/v1/messages"
    assert {name.lower(): value for name, value in headers.items()}["x-api-key"] == "s3cret"
    assert body["system"] == "be brief"
    assert [one["role"] for one in body["messages"]] == ["user", "assistant", "user"]


def test_a_busy_server_is_asked_again_when_it_says(server: ModelServer) -> None:
    server.answers += [
        Answer(429, headers={"Retry-After": "0"}),
        Answer(503, headers={"Retry-After": "0"}),
        openai("at last"),
    ]
    assert ask(make_model(server)) == "at last"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ([Answer(429, headers={"Retry-After": "0"})] * 3, ModelUnavailableError, "429"),
        ([Answer(429, headers={"Retry-After": "3600"})], ModelUnavailableError, "within"),
        ([Answer(hangs=True)], ModelUnavailableError, "within"),
        ([Answer(500)], ModelUnavailableError, "500"),
        ([Answer(401)], ModelUnavailableError, "key"),
        ([Answer(body=b"{not json")], ModelReplyError, "no JSON"),
        ([Answer(body=b"[" * 100_000)], ModelReplyError, "no JSON"),
        ([Answer(body=b"[]")], ModelReplyError, "form"),
        ([Answer(body=b'{"choices": []}')], ModelReplyError, "form"),
        ([openai("")], ModelReplyError, "empty"),
        ([openai(None)], ModelReplyError, "empty"),
        ([openai(None, refusal="I will not")], ModelRefusedError, "refused"),
    ],
)  # fmt: skip
def test_every_failure_of_a_server_has_its_error(
    server: ModelServer, answers: list[Answer], kind: type[ModelError], words: str
) -> None:
    server.answers += answers
    with pytest.raises(kind, match=words):
        ask(make_model(server, timeout_s=0.5))


def test_a_refusal_of_anthropic_is_a_refusal(server: ModelServer) -> None:
    server.answers.append(anthropic("no", "refusal"))
    with pytest.raises(ModelRefusedError):
        ask(make_model(server, "anthropic"))


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with model_server() as gone:
        model = make_model(gone)
    with pytest.raises(ModelUnavailableError, match="cannot be reached"):
        ask(model)


def test_a_key_that_cannot_be_read_is_a_fault_of_the_settings(server: ModelServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="key_file"):
        ask(make_model(server, key_file=str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("settings", "words"),
    [(ModelSettings(api="openai"), "model.name"), (ModelSettings(api="openai", name="small"), "model.url")],
)
def test_half_a_model_is_refused_with_what_lacks(settings: ModelSettings, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configured_model(settings)


def test_without_settings_there_is_no_model() -> None:
    assert configured_model(ModelSettings()) is None


@pytest.mark.parametrize(
    "said", ['{"a": 1}', 'Sure:\n```json\n{"a": 1}\n```', 'set {x} and {"a": 1} then', ' {"a": 1} {"b": 2}']
)
def test_an_object_is_taken_out_of_what_was_said(said: str) -> None:
    assert read_object(said) == {"a": 1}


@pytest.mark.parametrize("said", ["", "no", "[1]", "{", "{" * 5000])
def test_where_there_is_no_object_it_is_said(said: str) -> None:
    with pytest.raises(ModelReplyError):
        read_object(said)


def test_the_clients_model_is_asked_by_sampling() -> None:
    asked: list[Json] = []

    async def sample(params: Json) -> Json:
        asked.append(params)
        return {"role": "assistant", "content": {"type": "text", "text": "green"}, "model": "theirs"}

    assert ask(SampledModel(sample, 1.0)) == "green"
    assert asked[0]["systemPrompt"] == "be brief"
    assert asked[0]["messages"][2] == {"role": "user", "content": {"type": "text", "text": "green?"}}


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ({}, ModelReplyError),
        ({"content": {"type": "image"}}, ModelReplyError),
        ({"stopReason": "refusal"}, ModelRefusedError),
    ],
)
def test_an_empty_answer_of_the_clients_model_is_none(result: Json, kind: type[ModelError]) -> None:
    async def sample(params: Json) -> Json:
        return result

    with pytest.raises(kind):
        ask(SampledModel(sample, 1.0))


def test_a_client_that_does_not_answer_in_time_is_not_waited_for() -> None:
    async def sample(params: Json) -> Json:
        await asyncio.sleep(60)
        return {}

    with pytest.raises(ModelUnavailableError):
        ask(SampledModel(sample, 0.05))
