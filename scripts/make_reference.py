"""Writes the reference in ``docs/reference`` and the tables of requests and formats from the program itself; a test holds them to it.

``python scripts/make_reference.py`` writes; with ``--check`` it names what is not current. Examples come from
tests/data/docs/requests.json, whose replies `scripts/make_reference_examples.py` records.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from infinite_memory.contracts.native.contract import TABLE  # isort: skip  # first: in the order in which it imports them commands are listed
from infinite_memory.config import KnownSetting, known_settings
from infinite_memory.contracts.base import Command
from infinite_memory.contracts.errors import ERRORS, Column
from infinite_memory.contracts.fields import Field, object_schema
from infinite_memory.contracts.native.consent import QUESTIONS
from infinite_memory.contracts.native.table import CommandContext
from infinite_memory.contracts.native.tools import CORE, NO_TOOLS
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.transfer.formats import FORMATS
from infinite_memory.transports.http.api.routes import ROUTES, Route

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "tests" / "data" / "docs" / "requests.json"
MADE = "Made by `scripts/make_reference.py`"
MARKED = ("docs/reference/requests.md", "docs/importing.md")
"""Files that hold made tables between marks, among text written by hand."""

REQUESTS = {
    "remembering": ("Requests that remember", "store_memory", "store_memories", "update_memory"),
    "recalling": ("Requests that recall", "retrieve_memory", "recall_memory_by_time", "get_memory"),
    "listing": ("Requests that list", "list_memories", "search_by_tag", "search_by_scope"),
    "forgetting": ("Requests that forget and undo", "delete_memory", "restore_memory"),
    "scopes": ("Requests about scopes", "create_memory_scope", "list_memory_scopes", "set_active_scope", "change_memory_scope",
               "merge_memory_scopes"),
    "backups": ("Requests that back up and move", "backup_memory", "list_backups", "verify_backup", "restore_backup", "export_memory",
                "import_memory"),
    "upkeep": ("Requests about state and upkeep", "get_memory_stats", "health_check", "ping", "help", "optimize_memory", "reindex",
               "repair_documents"),
}  # fmt: skip
"""Pages of the requests: title and commands."""

FILTER_PAGE = "reference/requests-listing.md"
_PART = re.compile(r"(<!-- (\w+): begin [^\n]*-->\n).*?(<!-- \2: end -->)", re.DOTALL)


# fields


def flattened(schema: dict[str, Any], required: bool = False, path: str = "") -> Iterator[tuple[str, str, bool, str]]:
    """Yield path, type, whether it is required, and meaning of every field of a schema, those of inner objects after the object.

    What a ``filter`` holds is described once, and left out elsewhere.
    """
    for name, one in schema.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        yield at, kind_of(one), name in schema.get("required", ()), about_of(one)
        if name != "filter":
            inner = one.get("items", one) if kind_of(one).startswith("list of object") else one
            yield from flattened(inner, path=f"{at}[]" if inner is not one else at)


def kind_of(schema: dict[str, Any]) -> str:
    """Say in a word or two what a field takes."""
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    kinds = schema.get("type") or [one.get("type") for one in schema.get("anyOf", ())]
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    words = {"string": "text", "integer": "whole number", "boolean": "truth value", "array": "list", "object": "object"}
    named = " or ".join(dict.fromkeys(words.get(one, one) for one in kinds if one)) or "any value"
    if kinds == ["array"] and "items" in schema:
        return f"list of {kind_of(schema['items'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and high is None:
        return named
    return f"{named}, {'' if low is None else f'{low:,}'} to {'' if high is None else f'{high:,}'}"


def about_of(schema: dict[str, Any]) -> str:
    """Return what a field is for, with its default."""
    about = str(schema.get("description", "")).replace("|", "\\|")
    return f"{about}; default `{json.dumps(schema['default'])}`" if "default" in schema else about


def field_table(fields: Sequence[Field], page: str) -> list[str]:
    """Return the table of fields, or a sentence where there are none."""
    rows = []
    link = "#the-filter" if page == FILTER_PAGE else f"{'../' * page.count('/')}{FILTER_PAGE}#the-filter"
    for path, kind, required, about in flattened(object_schema(fields)):
        of_filter = f" ([its fields]({link}))" if path.rpartition(".")[2] == "filter" else ""
        rows.append(f"| {f'**`{path}`**' if required else f'`{path}`'} | {kind} | {about}{of_filter} |")
    return ["| field | takes | meaning |", "| --- | --- | --- |", *rows, ""] if rows else ["It has no fields.", ""]


# requests


def request_page(name: str) -> str:
    """Build a page of requests."""
    title, *commands = REQUESTS[name]
    page = f"reference/requests-{name}.md"
    named = ", ".join(f"`{one}`" for one in commands)
    lines = [f"# {title}", "", f"Every field of {named}, with examples and the replies they got. {MADE}.", ""]
    for command in commands:
        found = TABLE.find(command)
        assert found
        lines += command_section(found, page)
    if page == FILTER_PAGE:
        lines += filter_section()
    return "\n".join(lines).rstrip("\n") + "\n"


def command_section(command: Command[CommandContext], page: str) -> list[str]:
    """Describe one request: meaning, fields, examples."""
    hints = []
    if command.destructive:
        hints.append("Refuses fields that it does not know.")
    if command.name in QUESTIONS:
        hints.append("Over MCP the user is asked first where it cannot be undone or concerns more than one memory.")
    lines = [f"## {command.name}", "", " ".join([command.about, *hints]), "", *field_table(command.fields, page)]
    for example in json.loads(EXAMPLES.read_text("utf-8")):
        if example["request"]["action"] == command.name and not example.get("hidden"):
            lines += ["```json", json.dumps(example["request"], ensure_ascii=False), "```", ""]
            lines += ["```json", json.dumps(example["reply"], ensure_ascii=False, indent=2), "```", ""]
    return lines


def filter_section() -> list[str]:
    """Describe the fields of a filter."""
    command = TABLE.find("list_memories")
    assert command
    [schema] = [one.schema() for one in command.fields if one.name == "filter"]
    rows = [f"| `{path}` | {kind} | {about} |" for path, kind, _, about in flattened(schema)]
    return ["## The filter", "", "`filter` narrows what a request considers; all that is given must hold.", "",
            "| field | takes | meaning |", "| --- | --- | --- |", *rows, ""]  # fmt: skip


def commands() -> str:
    """Build the table of all requests."""
    pages = {command: name for name, (_, *names) in REQUESTS.items() for command in names}
    rows = ["| request | fields (**required**) | what it does |", "| --- | --- | --- |"]
    for one in TABLE:
        fields = ", ".join(f"**`{field.name}`**" if field.required else f"`{field.name}`" for field in one.fields)
        link = f"[`{one.name}`](requests-{pages[one.name]}.md#{one.name})"
        rows.append(f"| {link} | {fields} | {one.about.split('. ')[0].rstrip('.')} |")
    return "\n".join(rows) + "\n"


def tools() -> str:
    """Build the table of MCP tools with what clients are told of each."""
    rows = ["| tool | in `core` | only reads | may remove | asks the user |", "| --- | --- | --- | --- | --- |"]
    for one in TABLE:
        if one.name not in NO_TOOLS:
            marks = (one.name in CORE, one.read_only, one.destructive, one.name in QUESTIONS)
            rows.append(f"| `{one.name}` | " + " | ".join("yes" if mark else "" for mark in marks) + " |")
    return "\n".join(rows) + "\n"


def formats() -> str:
    """Build the table of formats that can be imported."""
    rows = ["| format | what PATH is |", "| --- | --- |", *(f"| `{one.name}` | {one.about} |" for one in FORMATS)]
    return "\n".join(rows) + "\n"


TABLES = {"commands": commands, "formats": formats, "tools": tools}


def with_tables(text: str) -> str:
    """Return *text* with its marked tables made again."""
    return _PART.sub(lambda part: part[1] + TABLES[part[2]]() + part[3], text)


# settings, errors, HTTP


def settings_page() -> str:
    """Build the page of settings."""
    lines = [
        "# Settings", "",
        f"Every setting, its default and its variable. {MADE}.", "",
        "Set them in `config.toml` of the home (`[mongodb]`, `uri = \"...\"`), by a variable"
        " (`INFINITE_MEMORY_MONGODB__URI`), or by a flag (`--set mongodb.uri=...`); the later wins. `infinite-memory config` shows what"
        " holds, and who set it. *Session* marks what belongs to one client; the others are the daemon's, from its next start on.", "",
    ]  # fmt: skip
    section = ""
    for one in known_settings().values():
        if one.section != section:
            section = one.section
            lines += [""] * bool(lines[-1]) + [
                f"## {section}",
                "",
                "| setting | default | what it is |",
                "| --- | --- | --- |",
            ]
        default = "" if one.default is None else f"`{json.dumps(one.default)}`"
        choices = f" One of: {', '.join(f'`{choice}`' for choice in one.choices)}." if one.choices else ""
        session = " *Session.*" if one.per_session else ""
        about = one.about.replace("|", "\\|")
        lines.append(f"| `{section}.{one.name}` | {default} | {about}.{choices}{_range_words(one)}{session} |")
    return "\n".join(lines) + "\n"


def _range_words(setting: KnownSetting) -> str:
    """Return which numbers a setting takes, as a sentence with a blank before it; nothing where it takes any."""
    if setting.low is None:
        return ""
    return f" At least {setting.low:.15g}." if setting.high is None else f" {setting.low:.15g} to {setting.high:.15g}."


def errors_page() -> str:
    """Build the page of errors."""
    lines = [
        "# Errors", "",
        f"What an error is called in each way in. {MADE}.", "",
        "A reply by lines has `status` `ERROR`, the text in `error` and the code in `error_code`; the text begins with the field that is"
        " wrong. Codes are a promise, texts are not. HTTP's own names are in [HTTP routes](../http-routes.md#errors), the exceptions of"
        " Python in [Python SDK](../sdk.md#what-comes-back-and-what-is-raised). `-32002` and the others of JSON-RPC itself are in"
        " [MCP](../mcp.md#the-protocol).", "",
        "| error | when | lines | JSON-RPC | AgentMem | Laravel | HTTP |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for kind in _tree(InfiniteMemoryError):
        if kind.__module__ == InfiniteMemoryError.__module__:
            codes = (
                _code(kind, column)
                for column in (Column.NATIVE, Column.RPC, Column.AGENTMEM, Column.LARAVEL, Column.HTTP)
            )
            about = (kind.__doc__ or "").split("\n\n")[0].strip().rstrip(".").replace("``", "`")
            lines.append(f"| `{kind.code}` | {' '.join(about.split())} | {' | '.join(f'`{code}`' for code in codes)} |")
    return "\n".join(lines) + "\n"


def _tree(kind: type[InfiniteMemoryError]) -> Iterator[type[InfiniteMemoryError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _tree(narrower)


def _code(kind: type[InfiniteMemoryError], column: Column) -> str | int:
    rows = (ERRORS[one][column] for one in kind.__mro__ if one in ERRORS)
    return next(code for code in rows if code is not None)


def http_page(name: str) -> str:
    """Build a page of HTTP routes, from what the OpenAPI document is made of."""
    of_memories = name == "memories"
    title, what = (
        ("Routes of memories", "one memory or many")
        if of_memories
        else ("Other routes", "searches, users, scopes and the whole")
    )
    lines = [f"# {title}", "",
             f"Every field of the HTTP routes about {what}, as `GET /openapi.json` describes them. {MADE}. The forms of replies are in"
             " [HTTP routes](../http-routes.md).", ""]  # fmt: skip
    for route in ROUTES:
        if ("/memories" in route.path) == of_memories:
            lines += route_section(route, f"reference/http-{name}.md")
    return "\n".join(lines).rstrip("\n") + "\n"


def route_section(route: Route, page: str) -> list[str]:
    """Describe one route: meaning, where its fields stand, fields, replies."""
    places = [("Query string", route.query), ("JSON object", route.body or ())]
    replies = ", ".join(f"{status} `{form}`" for status, form in route.gives.items())
    lines = [f"## {route.method} {route.path}", "", f"{route.about} Replies: {replies}.", ""]
    for place, fields in places:
        if fields:
            lines += [f"{place}:", "", *field_table(fields, page)]
    return lines


def pages() -> dict[str, str]:
    """Build every page that is made whole or in part, by its path in the repository."""
    made = {f"docs/reference/requests-{name}.md": request_page(name) for name in REQUESTS}
    made |= {f"docs/reference/http-{name}.md": http_page(name) for name in ("memories", "rest")}
    made |= {"docs/reference/settings.md": settings_page(), "docs/reference/errors.md": errors_page()}
    return made | {name: with_tables((ROOT / name).read_text("utf-8")) for name in (*MARKED, "docs/mcp.md")}


def main() -> int:
    """Write the pages, or name those that are not current."""
    stale = [
        name for name, text in pages().items() if not (ROOT / name).exists() or (ROOT / name).read_text("utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        print("\n".join(stale))
        return int(bool(stale))
    for name in stale:
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(pages()[name], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
