"""Statistics tell when memories are in a language that the model does not know, and no second model is to read them."""

from __future__ import annotations

import pytest

from tests.store.lifecycle.conftest import Open

FOREIGN = {
    "German": "Gestern habe ich die Küche mit einer hellgrünen Farbe gestrichen",
    "Spanish": "El perro de mi vecina ladra cada noche hasta las cuatro",
    "Russian": "Сегодня я купил новую машину в соседнем городе",
    "Chinese": "我下周二去上海见客户，然后回北京过年",
    "Japanese": "私は来週の火曜日に東京で友達に会います",
}


@pytest.mark.parametrize("language", FOREIGN)
async def test_without_a_second_model_memories_in_other_languages_bring_a_hint(
    open_memory: Open, language: str
) -> None:
    async with open_memory(flags={"embedding.second_model": "off"}) as memory:
        english = [f"The team met in room {n} and agreed on a plan for spring" for n in range(30)]
        foreign = [f"{FOREIGN[language]} {n}" for n in range(10)]
        await memory.ok("store_memories", memories=[{"content": text} for text in english])
        assert "hint" not in (await memory.ok("get_memory_stats"))["stats"]["model"]
        await memory.ok("store_memories", memories=[{"content": text} for text in foreign])
        hint = (await memory.ok("get_memory_stats"))["stats"]["model"]["hint"]
        assert hint.startswith("10 of the 40 newest memories")
