"""What the engine on Milvus does beyond the suite: texts in expressions, the order of more rows than are fetched, settings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.bootstrap import check_index
from infinite_memory.config import Config, load_config
from infinite_memory.errors import ConfigError, IndexUnavailableError
from infinite_memory.index.base import ImportanceDecay
from infinite_memory.index.milvus import schema
from infinite_memory.index.milvus.collection import Collection
from infinite_memory.index.milvus.connection import MAX_ROWS, Connection, Row
from infinite_memory.index.milvus.files import MilvusIndexFiles
from infinite_memory.index.milvus.milvus_index import MilvusIndex
from infinite_memory.index.milvus.ordering import first_by_time, first_by_weight
from infinite_memory.models import Filter
from tests.unit.index.builders import DIM, SPACE, START, make_row, memory_id
from tests.unit.index.filter_cases import HOSTILE

NOW = START + dt.timedelta(days=300)
DECAY = ImportanceDecay(NOW, full=10.0, unset=0.5, half_life_days=90.0, lasting_share=0.5)


@given(text=st.text(max_size=50) | st.sampled_from(HOSTILE))
def test_a_text_comes_back_from_its_safe_form_unless_it_is_too_long(text: str) -> None:
    written = schema.encode(text)
    assert written.isascii()
    assert not set(written) & set("\"'\\ ()[]")
    assert schema.decode(written) == text


def test_a_text_that_is_too_long_stands_as_its_hash() -> None:
    one, other = schema.encode("l" * 5000), schema.encode("l" * 5001)
    assert one != other
    assert schema.decode(one) is None


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Return a collection of 120 memories, of which many happened in one moment, and many weigh the same."""
    uri = str(tmp_path_factory.mktemp("milvus") / "rows.db")
    index = MilvusIndexFiles(uri, None, timeout_s=30).create(SPACE, DIM)
    index.upsert(
        make_row(
            number, second=86_400 * (number // 3 if number < 60 else 5), importance=(None, 0.0, 5.0, 10.0)[number % 4]
        )
        for number in range(120)
    )
    return Collection(Connection(uri, None, 30), index.name)


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 9, 40, 100, 500])
def test_of_more_rows_than_are_fetched_the_first_by_time_are_found(
    rows: Collection, limit: int, newest_first: bool
) -> None:
    ordered = first_by_time(rows, schema.MEMORIES, schema.OCCURRED, 500, newest_first=newest_first)
    few = first_by_time(rows, schema.MEMORIES, schema.OCCURRED, limit, newest_first=newest_first, fetched=12)
    assert len(ordered) == 120
    assert [row[schema.MEMORY] for row in few] == [row[schema.MEMORY] for row in ordered][:limit]


@pytest.mark.parametrize("limit", [1, 9, 31, 500])
def test_of_more_rows_than_are_fetched_the_weightiest_are_found(rows: Collection, limit: int) -> None:
    ordered = first_by_weight(rows, schema.MEMORIES, 500, DECAY)
    assert len(ordered) == 120
    assert first_by_weight(rows, schema.MEMORIES, limit, DECAY, fetched=12) == ordered[:limit]


class CountedCollection(Collection):
    """A collection that remembers what was asked of it."""

    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection, name)
        self.asked: list[str] = []

    def count(self, expression: str) -> int:
        self.asked.append("count")
        return super().count(expression)

    def query(
        self, expression: str, fields: Sequence[str], limit: int = MAX_ROWS, *, eventually: bool = False
    ) -> list[Row]:
        self.asked.append("query")
        return super().query(expression, fields, limit, eventually=eventually)


def test_a_list_asks_the_server_no_more_often_than_it_has_to(tmp_path: Path) -> None:
    uri = str(tmp_path / "asked.db")
    whole = MilvusIndexFiles(uri, None, timeout_s=30).create(SPACE, DIM)
    whole.upsert(make_row(number, second=number) for number in range(30))
    rows = CountedCollection(Connection(uri, None, 30), whole.name)
    index = MilvusIndex(rows, whole.notes, SPACE, DIM)
    named = Filter(memory_ids=frozenset(memory_id(number) for number in range(3, 9)))
    for where, limit, listed, total, asked in (
        (Filter(), 10, 10, 30, ["count", "query"]),
        (Filter(), 50, 30, 30, ["count", "query"]),
        (named, 6, 6, 6, ["query"]),
        (named, 4, 4, 6, ["count", "query"]),
    ):
        rows.asked.clear()
        page = index.list_page(where, limit, None, newest_first=True)
        assert (len(page.memory_ids), page.total, rows.asked) == (listed, total, asked)
        assert (page.next_cursor is None) == (listed == total)


def test_a_server_that_is_not_there_is_said_and_then_said_at_once() -> None:
    rows = Collection(Connection("http://name:hidden-word@127.0.0.1:9", None, 1), "infinite_memory")
    for _ in range(2):
        with pytest.raises(IndexUnavailableError, match=r"does not answer at http://\*\*\*@127.0.0.1:9"):
            rows.count("")


def configured(**settings: str) -> Config:
    return load_config(Path("none.toml"), {}, {f"index.{name}": value for name, value in settings.items()})


def test_an_engine_without_an_address_and_an_address_that_is_none_are_refused() -> None:
    check_index(configured())
    check_index(configured(engine="milvus", uri="http://milvus:19530", token="root:secret-word"))
    with pytest.raises(ConfigError, match=r"index\.uri"):
        check_index(configured(engine="milvus"))
    with pytest.raises(ConfigError, match=r"index\.uri") as refused:
        configured(engine="milvus", uri="milvus://name:secret-word@host")
    assert "secret-word" not in str(refused.value)
