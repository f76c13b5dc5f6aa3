"""CSV tables of one's own: which columns count, what becomes of the others, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transfer.formats import Entry, Incoming, Refused
from infinite_memory.transfer.validation import make_id
from tests.import_files import read_entries


def read(folder: Path, table: str) -> list[Entry]:
    """Read a table the way an import does."""
    path = folder / "mine.csv"
    path.write_text(table, "utf-8")
    form, entries = read_entries(path)
    assert form == "csv"
    return entries


def one(folder: Path, table: str) -> Incoming:
    [found] = read(folder, table)
    assert isinstance(found, Incoming)
    return found


@pytest.mark.parametrize("name", ["text", "content", "Memory", "\ufeffText", " CONTENT "])
def test_the_column_of_texts_may_have_several_names(tmp_path: Path, name: str) -> None:
    assert one(tmp_path, f"{name}\nthe boiler is serviced in May\n").text == "the boiler is serviced in May"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_stand_in_any_order_between_any_of_three_signs(tmp_path: Path, delimiter: str) -> None:
    rows = [
        ["tags", "Scope", "date", "content", "importance"],
        ['"house, heating"', "Home", "2024-05-06", "boiler", "7.5"],
    ]
    found = one(tmp_path, "".join(delimiter.join(row) + "\r\n" for row in rows))
    assert (found.text, found.scope, found.tags, found.importance) == ("boiler", "Home", ("house", "heating"), 7.5)
    assert found.occurred_at == dt.datetime(2024, 5, 6, tzinfo=dt.UTC)


def test_columns_that_we_have_not_are_kept_as_metadata(tmp_path: Path) -> None:
    found = one(tmp_path, 'text,Mood,id,metadata\nboiler,calm,17,"{""room"": 3}"\n')
    assert found.metadata == {"Mood": "calm", "id": "17", "room": 3}


def test_metadata_that_is_no_object_is_kept_as_it_is(tmp_path: Path) -> None:
    assert one(tmp_path, "text,metadata\nboiler,by hand\n").metadata == {"metadata": "by hand"}


def test_the_same_line_has_the_same_id_and_another_time_has_another(tmp_path: Path) -> None:
    table = "text,timestamp\nboiler,2024-05-06\nboiler,2024-05-07\n"
    first, second = ([make_id(each) for each in read(tmp_path, table) if isinstance(each, Incoming)] for _ in range(2))
    assert first == second
    assert len(set(first)) == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("boiler,the day before,5", "its timestamp is not a time"),
        ("boiler,2024-05-06,much", "its importance is not a number"),
        ("boiler,2024-05-06,nan", "its importance is not a number"),
        (" ,2024-05-06,5", "has no text"),
        ("boiler,2024-05-06,5,more", "has 4 columns, the first line names 3"),
    ],
)
def test_a_line_that_cannot_be_taken_whole_is_named_and_the_next_is_read(tmp_path: Path, line: str, why: str) -> None:
    refused, kept = read(tmp_path, f"text,timestamp,importance\n{line}\nkettle,2024-05-06,5\n")
    assert isinstance(refused, Refused)
    assert refused.where == "line 2"
    assert why in refused.reason
    assert isinstance(kept, Incoming)
    assert kept.text == "kettle"


def test_empty_lines_and_lines_that_end_early_are_no_faults(tmp_path: Path) -> None:
    found = read(tmp_path, 'text,tags\n\n"two\nlines",a\n,,\nkettle\n')
    assert [each.text for each in found if isinstance(each, Incoming)] == ["two\nlines", "kettle"]


@pytest.mark.parametrize("table", ["name,note\na,b\n", "", "text,text\na,b\n", "text,content\na,b\n"])
def test_a_table_without_one_column_of_texts_is_refused(tmp_path: Path, table: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(table, "utf-8")
    with pytest.raises(InvalidRequestError, match=r"has no one column named text, content or memory|is empty"):
        read_entries(path)


@pytest.mark.parametrize("name", ["none.csv", "x" * 300])
def test_a_file_that_is_not_there_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="path"):
        read_entries(tmp_path / name)
