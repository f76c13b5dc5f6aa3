"""Models over HTTP against a scripted server: what is asked, what is read, and every way in which a model can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory.errors import ConfigError, ModelError, ModelRefusedError, ModelReplyError, ModelUnavailableError
from infinite_memory.llm.base import ChatMessage, ChatModel, Role, ask_model, read_object
from infinite_memory.llm.factory import configured_model
from infinite_memory.llm.http_clients import is_on_this_machine
from infinite_memory.llm.sampling import Json, SampledModel
from infinite_memory.settings import ModelSettings
from tests.model_server import Answer, ModelServer, anthropic, model_server, openai

TURNS = [ChatMessage(Role.USER, "tea?"), ChatMessage(Role.ASSISTANT, "yes"), ChatMessage(Role.USER, "green?")]


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
        ask(make_model(server, timeout_s=2.0))


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


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:11434/v1", True), ("http://localhost:11434/v1", True), ("HTTP://LOCALHOST.:11434/v1", True),
        ("https://localhost/v1", True), ("http://[::1]:8080/v1", True), ("http://127.8.9.10/v1", True), ("http://127.1:80/v1", True),
        ("http://0x7f000001/v1", True), ("http://2130706433/v1", True), ("http://0.0.0.0:11434/v1", True), ("http://[::]:1/v1", True),
        ("http://[::ffff:127.0.0.1]:1/v1", True), ("http://model.localhost/v1", True), ("http://user:word@127.0.0.1/v1", True),
        ("https://api.example.com/v1", False), ("http://localhost.example.com/v1", False), ("http://192.168.1.7:11434/v1", False),
        ("http://127.0.0.1.example.com/v1", False), ("http://[fe80::1]/v1", False), ("http://[bad/v1", False), ("", False),
    ],
)  # fmt: skip
def test_which_addresses_are_this_machine(url: str, here: bool) -> None:
    assert is_on_this_machine(url) is here


def test_a_model_on_this_machine_is_asked_directly_whatever_proxies_are_named(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for host in ("127.0.0.1", "localhost"):
            server.answers.append(openai("green"))
            assert ask(make_model(server, url=server.url.replace("127.0.0.1", host))) == "green"
        assert proxy.asked == []
    assert len(server.asked) == 2


ODD = (
    {"HTTP_PROXY": "not a proxy", "HTTPS_PROXY": "not a proxy"}, {"ALL_PROXY": "socks5://127.0.0.1:1"}, {"ALL_PROXY": "ftp://x:y"},
    {"HTTPS_PROXY": "http://[::1"}, {"HTTP_PROXY": "http://a:b:c:d"}, {"SSL_CERT_FILE": "/nowhere/ca.pem"}, {"SSL_CERT_DIR": "/nowhere"},
    {"SSL_CERT_FILE": __file__}, {"NO_PROXY": "[[", "HTTP_PROXY": "http://127.0.0.1:1"},
)  # fmt: skip


@pytest.mark.parametrize("variables", ODD, ids=str)
@pytest.mark.parametrize("url", ["https://model.invalid/v1", "http://model.invalid/v1", None])
def test_odd_proxy_and_certificate_variables_are_an_error_of_the_model_and_none_here(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.lower(), value)
    server.answers.append(openai("green"))
    if url is None:
        assert ask(make_model(server)) == "green"
    else:
        with pytest.raises(ModelError):
            ask(make_model(server, url=url, timeout_s=0.5))


def test_a_key_that_no_header_can_hold_is_an_error_that_does_not_tell_it(server: ModelServer, tmp_path: Path) -> None:
    key = tmp_path / "key"
    for secret in ("schlüssel-ß-geheim", "geheim\x7f\x01"):
        key.write_text(secret, "utf-8")
        server.answers.append(Answer(401))
        with pytest.raises(ModelError) as failed:
            ask(make_model(server, key_file=str(key)))
        assert "geheim" not in str(failed.value)


class Broken:
    """A model of somebody's whose library fails in its own way."""

    name = "broken"

    async def complete(self, *_: object, **__: object) -> str:
        raise RuntimeError("the key is s3cret")


async def test_whatever_a_model_raises_is_an_error_of_the_model() -> None:
    with pytest.raises(ModelUnavailableError, match="broken cannot be used") as failed:
        await ask_model(Broken(), "be brief", TURNS, max_tokens=9)  # type: ignore[arg-type]
    assert "s3cret" not in str(failed.value)
