"""Files that are dropped onto the page: each has a name of its own."""

from __future__ import annotations

from pathlib import Path

from infinite_memory.transports.http.page.uploads import put_into_place, to_file_name


def test_two_files_of_one_name_do_not_take_each_others_place(tmp_path: Path) -> None:
    for number in range(3):
        partial = tmp_path / f".{number}.part"
        partial.write_text(str(number))
        put_into_place(partial, tmp_path, "notes.json")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "notes.json": "0",
        "notes-2.json": "1",
        "notes-3.json": "2",
    }


def test_a_name_leads_nowhere_and_hides_nothing() -> None:
    assert [to_file_name(name) for name in ("../../etc/passwd", "C:\\notes.json", "...", ".hidden", "a\nb")] == [
        "passwd", "notes.json", "upload", "hidden", "a_b"
    ]  # fmt: skip


def test_a_long_name_of_any_letters_fits_into_a_folder_with_its_ending(tmp_path: Path) -> None:
    for name in ("漢" * 90 + ".json", "é" * 300 + ".md", "a" * 300 + ".csv"):
        for number in range(2):
            partial = tmp_path / ".part"
            partial.write_text("")
            path = put_into_place(partial, tmp_path, to_file_name(name))
            assert path.suffix == Path(name).suffix
            assert to_file_name(path.name) == path.name, number
