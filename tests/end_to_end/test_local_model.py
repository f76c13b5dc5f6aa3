"""AgentMem with a real model, small and local, behind a real OpenAI-compatible server; it is installed for this: `--long` only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infinite_memory.sdk.memory import Memory
from tests.local_model import local_model
from tests.processes import LONG, Installation, need_parts

pytestmark = [
    pytest.mark.skipif(not LONG, reason="takes minutes: scripts/test --long"),
    pytest.mark.timeout(900),  # the first time it installs the model
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    need_parts()
    with local_model() as url:
        settings = {"API": "openai", "URL": url, "NAME": "gemma-3-270m", "TIMEOUT_S": "120"}
        environ = {f"INFINITE_MEMORY_MODEL__{name}": value for name, value in settings.items()}
        with Installation(tmp_path_factory.mktemp("model") / "home", environ) as one:
            assert one.command("daemon", "start").returncode == 0
            with Memory("resident", home=one.home, timeout_s=300) as made:
                yield made


def test_a_real_model_draws_facts_settles_a_conflict_and_answers(memory: Memory) -> None:
    old = memory.add("I live in Berlin.")
    assert old.model_error is None
    assert (old.generated, old.outcome) == (True, "stored")
    new = memory.add("I live in Rome now.")
    assert new.generated
    assert any("Rome" in fact for fact in new.facts), new.facts
    assert new.superseded == (old.memory_id,), "the older statement gives way"
    assert "I live in Berlin." not in [one.content for one in memory.search("where do I live?")]
    assert memory.get(old.memory_id).content == "I live in Berlin.", "and stays readable"
    memory.add("The cat is called Bolt.", user_id="owner")
    answer = memory.chat("What is the cat called?", user_id="owner")
    assert (answer.generated, answer.model) == (True, "gemma-3-270m")
    assert "Bolt" in answer.response, answer.response
