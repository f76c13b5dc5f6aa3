"""The documents say what the program does: made parts are current, and no command or setting is left out."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from infinite_memory import cli
from infinite_memory.config import known_settings, load_config
from infinite_memory.contracts.native.contract import TABLE
from infinite_memory.transports.http.api.routes import ROUTES

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")


def script(name: str) -> ModuleType:
    """Load a script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_made_from_the_program() -> None:
    made = script("make_reference").pages()
    stale = [name for name, text in made.items() if (ROOT / name).read_text("utf-8") != text]
    assert not stale, "run scripts/make_reference.py"


def test_every_request_stands_on_one_page_of_the_reference_with_an_example() -> None:
    reference = script("make_reference")
    listed = [name for _, *names in reference.REQUESTS.values() for name in names]
    assert sorted(listed) == sorted(TABLE.names())
    shown = {one["request"]["action"] for one in json.loads(reference.EXAMPLES.read_text("utf-8"))}
    assert shown == set(TABLE.names())


def test_every_route_of_the_http_api_stands_in_the_table_of_routes() -> None:
    table = (ROOT / "docs" / "http-routes.md").read_text("utf-8").replace("{id}", "{memory_id}")
    assert [
        f"{route.method} {route.path}" for route in ROUTES if f"| `{route.method} {route.path}` |" not in table
    ] == []


def test_a_variable_in_a_sentence_is_a_variable() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    named = [
        (page.name, word) for page in pages for word in re.findall(r"(?<!`)`\$([^`]*)`(?!`)", page.read_text("utf-8"))
    ]
    assert [one for one in named if not re.fullmatch(r"[A-Z_]+|[\d.]+", one[1])] == []


def test_the_settings_file_is_made_from_the_settings() -> None:
    made = script("make_config_docs")
    assert made.FILE.read_text("utf-8") == made.document(), "run scripts/make_config_docs.py"


def test_the_settings_file_is_a_settings_file_without_effect(tmp_path: Path) -> None:
    config = load_config(ROOT / "config" / "infinite-memory.toml", {})
    assert dict(config.origins) == {}


def test_every_default_of_the_settings_file_is_accepted_as_it_stands(tmp_path: Path) -> None:
    commented = (ROOT / "config" / "infinite-memory.toml").read_text("utf-8")
    names = {one.name for one in known_settings().values()}
    lines = []
    for line in commented.splitlines():
        bare = line.removeprefix("# ")
        is_setting = bare.split(" = ")[0] in names and not bare.endswith("= ...")
        lines.append(bare if is_setting else line)
    file = tmp_path / "config.toml"
    file.write_text("\n".join(lines), "utf-8")
    assert dict(load_config(file, {}).values()) == {name: one.default for name, one in known_settings().items()}


def subcommands() -> list[str]:
    """List the words that may follow `infinite-memory`."""
    for action in cli.build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return list(action.choices)
    raise AssertionError("the command has no subcommands")


@pytest.mark.parametrize("command", subcommands())
def test_every_command_is_described_in_the_reference(command: str) -> None:
    assert f"`infinite-memory {command}" in COMMANDS


def test_every_request_tells_what_it_is_for_and_what_its_fields_are() -> None:
    for command in TABLE:
        assert command.title, command.name
        assert command.about.endswith("."), command.name
        for field in command.fields:
            assert field.about, f"{command.name}.{field.name}"
            assert field.schema() is not None


def test_the_page_about_monitoring_names_every_metric_and_no_event_that_is_not_logged() -> None:
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text("utf-8")
    source = (ROOT / "infinite_memory" / "transports" / "http" / "api" / "metrics.py").read_text("utf-8")
    names = set(re.findall(r'"(infinite_memory_[a-z_]+)"', source))
    assert len(names) > 10
    assert {name for name in names if name not in page} == set()
    events = re.findall(r"^\| `([a-z_]+)`(?:, `([a-z_]+)`)?", page.partition("## Events")[2], re.MULTILINE)
    code = "".join(file.read_text("utf-8") for file in (ROOT / "infinite_memory").rglob("*.py"))
    assert [event for pair in events for event in pair if event and f'"event": "{event}"' not in code] == []
    assert len(events) > 8
