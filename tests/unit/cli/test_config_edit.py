"""Changing one entry of a file that somebody else owns: every other byte stays."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.cli.config_edit import remove_json_entry, remove_toml_table, set_json_entry, set_toml_table

ENTRY = {"command": "/opt/im/infinite-memory", "args": ["serve", "--scope", 'Work "x"'], "env": {"A": "C:\\b"}}

COMMENTED = """\
// settings of mine
{
  "theme": "dark", // keep
  "mcpServers": {
    /* the files */
    "files": {"command": "npx", "args": ["-y", "server"]} // note
    // more to come
  },
  "last": [1, 2,],
}
"""


def test_an_entry_goes_into_an_empty_file() -> None:
    text = set_json_entry("", "mcpServers", "im", ENTRY)
    assert json.loads(text) == {"mcpServers": {"im": ENTRY}}
    assert text.endswith("}\n")


def test_comments_other_servers_and_layout_stay() -> None:
    text = set_json_entry(COMMENTED, "mcpServers", "im", ENTRY)
    for line in COMMENTED.splitlines():
        assert line.replace("} // note", "}, // note") in text.splitlines()
    assert '\n    "im": {\n      "command"' in text
    assert set_json_entry(text, "mcpServers", "im", ENTRY) == text


def test_taking_the_entry_out_leaves_the_file_as_it_was() -> None:
    text = set_json_entry(COMMENTED, "mcpServers", "im", ENTRY)
    assert remove_json_entry(text, "mcpServers", "im") == COMMENTED
    assert remove_json_entry(COMMENTED, "mcpServers", "im") == COMMENTED
    assert remove_json_entry("", "mcpServers", "im") == ""


def test_an_entry_that_is_there_is_replaced_in_its_place() -> None:
    text = '{\n\t"mcpServers": {\n\t\t"im": {"command": "old"},\n\t\t"other": {"command": "x"}\n\t}\n}\n'
    changed = set_json_entry(text, "mcpServers", "im", ENTRY)
    assert json.loads(changed)["mcpServers"] == {"im": ENTRY, "other": {"command": "x"}}
    assert changed.index('"im"') < changed.index('"other"')
    assert '\n\t\t\t"command"' in changed
    assert json.loads(remove_json_entry(changed, "mcpServers", "im"))["mcpServers"] == {"other": {"command": "x"}}


@pytest.mark.parametrize(
    "text", ["{}", "{ }", '{"a": 1}', '{"mcpServers": {}}', '{"a":{"b":1},}', '{\r\n  "a": 1\r\n}\r\n']
)
def test_files_of_every_layout_take_it(text: str) -> None:
    changed = set_json_entry(text, "mcpServers", "im", {"command": "x"})
    assert '"im"' in changed
    assert ("\r\n" in text) is ("\r\n" in changed)
    assert changed.count("\n") == changed.count("\r\n") or "\r\n" not in text
    assert '"im"' not in remove_json_entry(changed, "mcpServers", "im")


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"a" 1}', '{"a": 1 "b": 2}', '{"mcpServers": []}', "{} x", "nul", "[" * 500]
)
def test_what_is_no_such_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        set_json_entry(text, "mcpServers", "im", ENTRY)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=4), st.sampled_from([None, 1, 2, "\t"]))
def test_whatever_else_is_in_the_file_comes_back(other: dict[str, Any], indent: Any) -> None:
    other.pop("servers", None)
    text = json.dumps(other, indent=indent)
    changed = set_json_entry(text, "servers", "im", ENTRY)
    assert json.loads(changed) == other | {"servers": {"im": ENTRY}}
    assert json.loads(remove_json_entry(changed, "servers", "im")) == other | {"servers": {}}


TOML = """\
# mine
model = "x"

[mcp_servers.files]
command = "npx"  # keep

[tui]
theme = "dark"
"""


def test_a_table_is_put_at_the_end_and_taken_out_again() -> None:
    text = set_toml_table(TOML, "mcp_servers", "infinite-memory", ENTRY)
    assert text.startswith(TOML)
    assert tomllib.loads(text)["mcp_servers"]["infinite-memory"] == ENTRY
    assert set_toml_table(text, "mcp_servers", "infinite-memory", ENTRY) == text
    assert remove_toml_table(text, "mcp_servers", "infinite-memory") == TOML
    assert remove_toml_table(TOML, "mcp_servers", "infinite-memory") == TOML


def test_a_table_that_is_there_is_replaced_with_the_ones_below_it() -> None:
    text = TOML.replace(
        "[tui]",
        '[mcp_servers."infinite-memory"]\ncommand = "old"\n[mcp_servers."infinite-memory".env]\nA = "1"\n\n# ui\n[tui]',
    )
    changed = set_toml_table(text, "mcp_servers", "infinite-memory", {"command": "new"})
    assert tomllib.loads(changed)["mcp_servers"]["infinite-memory"] == {"command": "new"}
    assert "\n# ui\n[tui]" in changed


def test_toml_of_a_form_that_cannot_be_changed_is_refused() -> None:
    no_tables = ("mcp_servers = 5", "mcp_servers = 'infinite-memory'", "mcp_servers = [1]", "[[mcp_servers]]\na = 1")
    for text in ('mcp_servers = { infinite-memory = { command = "a" } }', "x = ", *no_tables):
        with pytest.raises(ValueError, match="is not a table" if text in no_tables else None):
            set_toml_table(text, "mcp_servers", "infinite-memory", ENTRY)
    assert tomllib.loads(set_toml_table("", "mcp_servers", "infinite-memory", ENTRY))
    for text in no_tables:
        assert remove_toml_table(text, "mcp_servers", "infinite-memory") == text
