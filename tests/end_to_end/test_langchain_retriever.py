"""LangChain's own tests for retrievers, and what is ours beside them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from infinite_memory import Memory
from infinite_memory.adapters.langchain import InfiniteMemoryRetriever
from tests.processes import Installation

FOOD = "Kitchen"
pytest.mark.asyncio(
    RetrieversIntegrationTests.test_ainvoke_returns_documents
)  # the suite counts on asyncio_mode = auto


@pytest.fixture(scope="module")
def kitchen(shared: Installation) -> Memory:
    memory = Memory(home=shared.home, scope=FOOD)
    for text in ("Bread needs flour, water, salt and time", "Soup is better the next day", "Knives are sharpened in spring",
                 "The oven is five degrees too hot", "Basil does not like the cold"):  # fmt: skip
        memory.add(text, tags=["food"], metadata={"source": "cook", "shelf": 2})
    return memory


class TestInfiniteMemoryRetriever(RetrieversIntegrationTests):
    """The suite of `langchain-tests`."""

    @pytest.fixture(autouse=True)
    def _stocked(self, kitchen: Memory) -> None:
        self.kitchen = kitchen

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return InfiniteMemoryRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.kitchen}

    @property
    def retriever_query_example(self) -> str:
        return "what is in bread?"


def test_a_document_says_where_it_comes_from(kitchen: Memory) -> None:
    first, *rest = InfiniteMemoryRetriever(memory=kitchen, k=2).invoke("what is in bread?")
    assert len(rest) == 1
    assert first.page_content.startswith("Bread")
    assert first.id == first.metadata["memory_id"]
    told = {name: first.metadata[name] for name in ("scope", "source", "shelf", "tags")}
    assert told == {"scope": FOOD, "source": "cook", "shelf": 2, "tags": ["food"]}
    assert 0 < first.metadata["confidence"] <= 1


def test_where_nothing_was_stored_yet_nothing_is_found(shared: Installation) -> None:
    unused = Memory(home=shared.home, scope="Never written to")
    assert InfiniteMemoryRetriever(memory=unused).invoke("what is in bread?") == []


async def test_what_a_search_takes_is_passed_on(kitchen: Memory) -> None:
    retriever = InfiniteMemoryRetriever(memory=kitchen, search_kwargs={"tags": ["none of them"]})
    assert await retriever.ainvoke("bread") == []
    with pytest.raises(ValidationError, match="min_confidence"):
        InfiniteMemoryRetriever(memory=kitchen, min_confidence=0.9)
