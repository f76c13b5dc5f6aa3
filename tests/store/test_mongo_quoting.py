"""What quotes a memory is found in every scope, live or hidden, however many scopes there are."""

from __future__ import annotations

import pytest

from infinite_memory.store.id_keys import SOURCES
from infinite_memory.store.mongo import memory_reads

from .conftest import NOW, Place, global_scope, make_memory


async def test_what_quotes_is_found_over_many_scopes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few scopes are asked together here that there are several questions."""
    monkeypatch.setattr(memory_reads, "_TOGETHER", 2)

    async with place.open() as store:
        scopes = [await global_scope(store), *[await store.create_scope(f"S{n}", "", NOW) for n in range(4)]]
        turn, other = make_memory(scopes[0], "said"), make_memory(scopes[1], "said elsewhere")
        assert await store.find_quoting(None) == {}
        one, hidden = (make_memory(scope, metadata={SOURCES: [turn.memory_id]}) for scope in scopes[2:4])
        third = make_memory(scopes[4], metadata={SOURCES: [other.memory_id]})
        await store.insert([turn, other, one, hidden, third])
        await store.soft_delete({hidden.memory_id: hidden.scope_id}, NOW)
        quoting = {one.memory_id: one.scope_id, hidden.memory_id: hidden.scope_id}
        assert await store.find_quoting([turn.memory_id]) == quoting
        assert await store.find_quoting(None) == {**quoting, third.memory_id: third.scope_id}
        assert await store.find_quoting([store.new_id()]) == {}
