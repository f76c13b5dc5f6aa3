"""AgentMem with a language model: a scripted server behind the settings, or the client's own by sampling. Whatever the model does, the
memory is stored."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.model_server import Answer, ModelServer, model_server, openai
from tests.processes import Client, Installation

Json = dict[str, Any]
BUSY = Answer(429, headers={"Retry-After": "0"})


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as one:
        yield one


@pytest.fixture(scope="module")
def modelled(shared: Installation, server: ModelServer) -> Iterator[Client]:
    """A session over a daemon whose settings name the scripted model."""
    shared.command("daemon", "stop")
    settings = {"API": "openai", "URL": server.url, "NAME": "scripted", "TIMEOUT_S": "2"}
    client = shared.serve(
        "--contract", "agentmem", environ={f"INFINITE_MEMORY_MODEL__{name}": value for name, value in settings.items()}
    )
    client.initialize()
    yield client


@pytest.fixture(autouse=True)
def fresh(server: ModelServer) -> None:
    server.answers.clear()
    server.asked.clear()


def use(client: Client, tool: str, **arguments: Any) -> Json:
    """Call a tool and give its reply."""
    reply: Json = client.tool(1, f"agentmem_{tool}", **arguments)["result"]["structuredContent"]
    assert reply["success"], reply
    return reply


def contents(client: Client, user_id: str, query: str = "anything") -> list[str]:
    """Give what is found of a user."""
    return [one["content"] for one in use(client, "search_memories", query=query, user_id=user_id)["results"]]


def known(**answer: Any) -> Answer:
    """Script what a model makes of a new memory."""
    return openai(json.dumps({"facts": [], "contradicted": [], "repeated": None} | answer))


def test_facts_are_drawn_and_shown_as_preferences(modelled: Client, server: ModelServer) -> None:
    server.answers.append(known(facts=["Prefers dark mode", "Uses Rust"]))
    reply = use(modelled, "add_memory", content="I prefer dark mode and write Rust", user_id="facts")
    assert (reply["facts"], reply["generated"]) == (["Prefers dark mode", "Uses Rust"], True)
    prompt = use(modelled, "get_system_prompt", user_id="facts")
    assert prompt["context"]["preferences"] == ["Prefers dark mode"]
    assert contents(modelled, "facts") == ["I prefer dark mode and write Rust"]


def native_id(shared: Installation, text: str) -> str:
    """Return the id that the native contract has for what an AgentMem user said."""
    found = shared.call("retrieve_memory", query=text, filter={"scope": "AgentMem"})["results"]
    return next(str(one["memory_id"]) for one in found if one["text"] == text)


def test_facts_go_with_the_words_that_they_were_drawn_from(
    shared: Installation, modelled: Client, server: ModelServer
) -> None:
    server.answers.append(known(facts=["Prefers the clinic in Bern"]))
    use(modelled, "add_memory", content="I prefer the clinic in Bern", user_id="edited")
    shared.call("update_memory", memory_id=native_id(shared, "I prefer the clinic in Bern"), content="I prefer tea")
    prompt = use(modelled, "get_system_prompt", user_id="edited")
    assert prompt["context"]["preferences"] == ["I prefer tea"]


def test_what_was_edited_while_the_model_read_it_gets_no_facts_and_is_not_superseded(
    shared: Installation, modelled: Client, server: ModelServer
) -> None:
    def edit(text: str, content: str) -> Answer:
        change = lambda: shared.call("update_memory", memory_id=native_id(shared, text), content=content)  # noqa: E731
        return dataclasses.replace(known(facts=["Prefers coal"], contradicted=[1]), meanwhile=change)

    server.answers += [known(), edit("I prefer wood", "I prefer wool"), edit("I prefer coal", "I prefer coats")]
    use(modelled, "add_memory", content="I prefer wood", user_id="slow")
    reply = use(modelled, "add_memory", content="I prefer gas", user_id="slow")
    assert (reply["superseded"], reply["facts"]) == ([], ["Prefers coal"])
    reply = use(modelled, "add_memory", content="I prefer coal", user_id="slow")
    assert "changed meanwhile" in reply["model_error"]
    assert sorted(contents(modelled, "slow")) == ["I prefer coats", "I prefer gas", "I prefer wool"]
    assert use(modelled, "get_system_prompt", user_id="slow")["context"]["preferences"].count("Prefers coal") == 1


def test_a_newer_statement_supersedes_the_older_one_which_stays_readable(
    shared: Installation, modelled: Client, server: ModelServer
) -> None:
    server.answers += [known(), known(), known(contradicted=["1"])]
    use(modelled, "add_memory", content="Lives in Berlin", user_id="moved", agent_id="mover")
    use(modelled, "add_memory", content="Plays the cello", user_id="moved", agent_id="mover")
    old = json.loads(server.asked[1][2]["messages"][-1]["content"])["OLD"]
    assert old == {"1": "Lives in Berlin"}
    use(modelled, "add_memory", content="Lives in Rome now", user_id="moved", agent_id="mover")
    shown = json.loads(server.asked[2][2]["messages"][-1]["content"])["OLD"]
    gone = shown["1"]
    assert gone == "Lives in Berlin"
    assert sorted(contents(modelled, "moved")) == ["Lives in Rome now", "Plays the cello"]
    agents = {one["agent_id"]: one["memory_count"] for one in use(modelled, "list_agents")["agents"]}
    assert agents["mover"] == 2
    kept = shared.call("retrieve_memory", query="Lives in Berlin", filter={"scope": "AgentMem"})["results"]
    assert "Lives in Berlin" in [one["text"] for one in kept]
    server.answers.append(known(contradicted=[1]))
    use(modelled, "add_memory", content="lives in berlin", user_id="moved", agent_id="mover")
    assert sorted(contents(modelled, "moved")) == ["Lives in Berlin", "Plays the cello"], "and back again"


def test_a_statement_of_an_earlier_time_is_superseded_by_the_later_one(modelled: Client, server: ModelServer) -> None:
    server.answers += [known(), known(contradicted=[1])]
    late = use(modelled, "add_memory", content="Lives in Oslo", user_id="dated", timestamp="2026-03-01T10:00:00Z")
    early = use(modelled, "add_memory", content="Lives in Milan", user_id="dated", timestamp="2019-03-01T10:00:00Z")
    assert (early["superseded"], early["superseded_by"]) == ([], late["memory_id"])
    assert contents(modelled, "dated") == ["Lives in Oslo"]
    server.answers.append(known(contradicted=[1]))
    assert use(modelled, "add_memory", content="lives in milan", user_id="dated")["superseded"] == [late["memory_id"]]
    assert contents(modelled, "dated") == ["Lives in Milan"], "said again, now"


def test_a_plan_gives_way_to_what_is_said_of_it_before_its_time(modelled: Client, server: ModelServer) -> None:
    server.answers += [known(), known(contradicted=[1])]
    use(modelled, "add_memory", content="Sees the dentist", user_id="planner", timestamp="2999-01-05")
    use(modelled, "add_memory", content="The dentist is called off", user_id="planner")
    assert contents(modelled, "planner") == ["The dentist is called off"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([BUSY] * 3, "429"),
        ([Answer(429, headers={"Retry-After": "3600"})], "within"),
        ([Answer(hangs=True)], "within"),
        ([Answer(body=b"{not json")], "no JSON"),
        ([openai("I would rather not say JSON")], "gave none"),
        ([openai('{"facts": "none"}')], "facts"),
        ([openai('{"contradicted": ["x"]}')], "number"),
        ([openai('{"contradicted": [1e400]}')], "no number of one"),
        ([openai(None, refusal="no")], "refused"),
        ([Answer(500)], "500"),
    ],
)
def test_the_memory_is_stored_whatever_the_model_does(
    modelled: Client, server: ModelServer, answers: list[Answer], words: str
) -> None:
    server.answers += answers
    text = f"stored in spite of {words} and {len(answers)} of {answers[0].headers.get('Retry-After')}"
    reply = use(modelled, "add_memory", content=text, user_id=f"unlucky {words}")
    assert reply["outcome"] == "stored"
    assert reply["generated"] is False
    assert words in reply["model_error"]
    assert text in contents(modelled, f"unlucky {words}")


def test_a_model_can_supersede_nothing_that_it_was_not_shown(modelled: Client, server: ModelServer) -> None:
    server.answers += [known(), known(contradicted=[0, 2, 99, -1], repeated=7)]
    use(modelled, "add_memory", content="one thing", user_id="numbers")
    assert use(modelled, "add_memory", content="another thing", user_id="numbers")["superseded"] == []
    assert len(contents(modelled, "numbers")) == 2


def test_a_chat_uses_memories_and_goes_on_where_it_was(modelled: Client, server: ModelServer) -> None:
    server.answers += [known(), openai("You drink green tea."), openai("As I said: green."), openai("Hello.")]
    use(modelled, "add_memory", content="Drinks green tea every morning", user_id="talker")
    first = use(modelled, "chat", message="What tea do I drink?", user_id="talker")
    assert (first["response"], first["generated"], first["model"]) == ("You drink green tea.", True, "scripted")
    assert "Drinks green tea every morning" in server.asked[1][2]["messages"][0]["content"]
    use(modelled, "chat", message="Which colour?", user_id="talker")
    turns = [one["content"] for one in server.asked[2][2]["messages"][1:]]
    assert turns == ["What tea do I drink?", "You drink green tea.", "Which colour?"]
    use(modelled, "chat", message="Hi", user_id="talker", session_id="another")
    assert [one["content"] for one in server.asked[3][2]["messages"][1:]] == ["Hi"]
    prompt = use(modelled, "get_system_prompt", user_id="talker", include_history=True)
    assert "As I said: green." in prompt["system_prompt"]


def test_a_chat_says_nothing_again_that_was_forgotten(
    modelled: Client, server: ModelServer, shared: Installation
) -> None:
    server.answers += [known(), openai("Your pin is 4711."), openai("As I said, 4711."), openai("Hello.")]
    added = use(modelled, "add_memory", content="The pin of the safe is 4711", user_id="careful")
    for message in ("What is the pin of the safe?", "Again, please", "And now?"):
        if message == "And now?":
            target = {"memory_id": added["memory_id"].removeprefix("mem_")}
            assert shared.serve().ask("delete_memory", target=target, forget_mode="hard")["deleted_count"] == 1
        use(modelled, "chat", message=message, user_id="careful")
    assert "4711" in json.dumps(server.asked[2][2]["messages"])
    assert [one["content"] for one in server.asked[3][2]["messages"][1:]] == ["And now?"]
    assert "4711" not in json.dumps(server.asked[3][2]["messages"])
    assert "4711" not in use(modelled, "get_system_prompt", user_id="careful", include_history=True)["system_prompt"]


def test_a_chat_whose_model_fails_is_answered_from_the_memories(modelled: Client, server: ModelServer) -> None:
    server.answers += [known(), *[BUSY] * 3]
    use(modelled, "add_memory", content="The boat is called Selma", user_id="sailor")
    reply = use(modelled, "chat", message="What is the boat called?", user_id="sailor")
    assert "Selma" in reply["response"]
    assert reply["generated"] is False
    assert "429" in reply["note"]
    assert "429" in reply["model_error"]


def test_an_unpaired_surrogate_of_a_model_leaves_nobody_waiting(modelled: Client, server: ModelServer) -> None:
    server.answers += [known(facts=["Likes \ud83d tea"]), openai("Tea \udc00."), openai("Still tea.")]
    added = use(modelled, "add_memory", content="Likes tea", user_id="odd")
    assert added["facts"] == ["Likes \ufffd tea"]
    assert use(modelled, "chat", message="What do I like?", user_id="odd")["response"] == "Tea \ufffd."
    assert use(modelled, "chat", message="And now?", user_id="odd")["response"] == "Still tea."


def test_two_names_of_one_field_that_contradict_each_other_are_refused(modelled: Client) -> None:
    arguments = {"message": "Hi", "user_id": "odd", "include_memories": True, "use_memory": False}
    reply = modelled.tool(1, "agentmem_chat", **arguments)["result"]["structuredContent"]
    assert (reply["error"]["code"], reply["error"]["details"]) == ("INVALID_PARAMETERS", {"field": "use_memory"})


def test_without_a_model_of_ours_the_clients_own_is_asked(installation: Installation) -> None:
    client = installation.serve("--contract", "agentmem")
    about = {"name": "lender", "version": "1"}
    client.rpc(0, "initialize", protocolVersion="2025-06-18", capabilities={"sampling": {}}, clientInfo=about)
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for answer, expected in (
        ({"result": {"role": "assistant", "model": "theirs", "content": {"type": "text", "text": '{"facts": ["Likes tea"]}'}}},
         {"facts": ["Likes tea"], "generated": True}),
        ({"error": {"code": -1, "message": "the user said no"}}, {"facts": [], "generated": False}),
    ):  # fmt: skip
        content = f"likes tea, {expected['generated']}"
        call = {"name": "agentmem_add_memory", "arguments": {"content": content, "user_id": "u"}}
        client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        asked = client.reply()
        assert asked["method"] == "sampling/createMessage"
        client.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
        reply = client.answer()["result"]["structuredContent"]
        assert {name: reply[name] for name in expected} == expected
        assert reply["outcome"] == "stored"


def test_half_a_model_in_the_settings_is_refused_at_the_start(installation: Installation) -> None:
    environ = {"INFINITE_MEMORY_MODEL__API": "openai", "INFINITE_MEMORY_MODEL__NAME": "small"}
    client = installation.serve("--contract", "agentmem", environ=environ)
    assert client.process.wait(60) == 2
    assert "model.url" in client.errors()


def test_a_key_that_cannot_be_read_costs_no_memory(installation: Installation) -> None:
    settings = {"API": "anthropic", "NAME": "small", "KEY_FILE": str(installation.home / "no.key")}
    environ = {f"INFINITE_MEMORY_MODEL__{name}": value for name, value in settings.items()}
    client = installation.serve("--contract", "agentmem", environ=environ)
    client.initialize()
    reply = use(client, "add_memory", content="The key is lost", user_id="u")
    assert (reply["outcome"], reply["generated"]) == ("stored", False)
    assert "key_file" in reply["model_error"]
    answer = use(client, "chat", message="What about the key?", user_id="u")
    assert "The key is lost" in answer["response"]
    assert "key_file" in answer["note"]
