"""Which URIs are of a set whose members take over for each other."""

from __future__ import annotations

import pytest

from infinite_memory.store.mongo.client import names_members


@pytest.mark.parametrize(
    ("uri", "several"),
    [
        ("mongodb://127.0.0.1:27017/", False),
        ("mongodb://127.0.0.1:27017/?readPreferenceTags=a,b", False),
        ("mongodb://one:27017,two:27017/?replicaSet=memory", True),
        ("mongodb://user:pass%2Cword@one", False),
        ("mongodb+srv://cluster0.example.net/", True),
    ],
)
def test_a_set_is_told_by_its_uri(uri: str, several: bool) -> None:
    assert names_members(uri) is several
