"""A LangChain retriever. Needs the extra ``langchain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from infinite_memory.sdk.errors import MissingError
from infinite_memory.sdk.memory import Memory
from infinite_memory.sdk.results import MemoryItem


class InfiniteMemoryRetriever(BaseRetriever):
    """Retrieves memories as documents, best first.

    ``memory`` selects the memories (a user, a scope, a URL); ``k`` is the maximum number of documents, which a call may override
    (``invoke(query, k=3)``); ``search_kwargs`` is passed to `Memory.search` (``{"tags": ["tea"]}``). Other arguments are an error.
    A scope that does not exist yet yields no documents: an agent recalls before it stores.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: Memory = Field(default_factory=Memory)
    k: int = 4
    search_kwargs: Mapping[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        try:
            hits = self.memory.search(query, **{"limit": self.k if k is None else k, **self.search_kwargs})
        except MissingError as exc:
            if exc.code != "SCOPE_NOT_FOUND":
                raise
            return []
        return [_document(hit) for hit in hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        from langchain_core.runnables import run_in_executor

        return await run_in_executor(
            None, self._get_relevant_documents, query, run_manager=run_manager.get_sync(), k=k
        )  # fmt: skip


_TOLD = ("scope", "source", "title", "speaker", "conversation_id", "importance", "user_id", "agent_id", "memory_type",
         "confidence")  # fmt: skip


def _document(item: MemoryItem) -> Document:
    """Return a document; fields of the memory take precedence over its own metadata."""
    metadata = {name: value for name in _TOLD if (value := getattr(item, name)) is not None}
    about = {"memory_id": item.memory_id, "timestamp": item.timestamp.isoformat(), "tags": list(item.tags)}
    return Document(page_content=item.content, metadata={**item.metadata, **metadata, **about}, id=item.memory_id)
