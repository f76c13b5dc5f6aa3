"""What the MCP registry is told: `server.json` by its schema, of this version, and the README's marker of the same name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema

from infinite_memory import __version__

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "tests" / "data" / "registry" / "server.schema.json").read_text("utf-8"))


def described() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "server.json").read_text("utf-8"))
    return loaded


def test_it_keeps_to_the_registrys_schema() -> None:
    validator = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    assert list(validator.iter_errors(described())) == []
    assert described()["$schema"] == SCHEMA["$id"]
    assert list(validator.iter_errors(described() | {"description": "long " * 100})) != []


def test_it_names_this_version_of_the_package() -> None:
    server = described()
    [package] = server["packages"]
    assert (server["version"], package["version"], package["identifier"]) == (
        __version__,
        __version__,
        "infinite-memory",
    )


def test_the_readme_proves_whose_package_it_is() -> None:
    """The registry looks for the marker in the description that the package index shows, which is the README."""
    [name] = re.findall(r"<!-- mcp-name: (\S+) -->", (ROOT / "README.md").read_text("utf-8"))
    assert name == described()["name"]
