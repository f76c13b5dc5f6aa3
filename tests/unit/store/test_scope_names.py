"""Which scopes a name that does not exist may have meant, and what finding them costs."""

from __future__ import annotations

import random
import time

from infinite_memory.store.scope_cache import MAX_COMPARED, find_similar_names


def test_a_slip_is_found_among_many_names() -> None:
    names = [f"project {number}" for number in range(3000)] + [
        "garden",
        "the kitchen of the new house, its plans and its bills",
    ]
    assert find_similar_names("gardn", names)[0] == "garden"
    assert find_similar_names("the kitchen of the new hose", names)[0] == names[-1]
    assert "project 17" in find_similar_names("projct 17", names)
    assert find_similar_names("qqq", names) == []
    assert find_similar_names("anything", []) == []


def test_many_long_names_cost_no_more_than_a_few() -> None:
    """Compared letter by letter as a whole, 2,000 such names are ten seconds."""
    seed = random.Random(7)
    names = ["".join(seed.choice("ab") for _ in range(199)) for _ in range(2000)]

    def measure(among: list[str]) -> float:
        began = time.thread_time()
        find_similar_names(names[0][::-1], among)
        return time.thread_time() - began

    assert measure(names) < 10 * measure(names[:MAX_COMPARED])
