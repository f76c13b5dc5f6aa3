"""A memory field is a row of ``FIELDS``: the diff of `docs/extending.md`, applied to a copy of the package, is a field that works."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.package_copy import apply_diff, copy_package, install
from tests.processes import ROOT, Installation, need_parts

Json = dict[str, Any]


@pytest.fixture(scope="module")
def moody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home that was made by the program as it is, and is used by the one with the new field."""
    need_parts()
    folder = tmp_path_factory.mktemp("field")
    with Installation(folder / "home") as before:
        assert before.call("store_memory", content="The boiler was serviced in May.")["status"] == "OK"
        assert before.command("daemon", "stop").returncode == 0
    [diff] = re.findall(r"```diff\n(.*?)```", (ROOT / "docs" / "extending.md").read_text("utf-8"), re.DOTALL)
    package = copy_package(folder)
    changed = apply_diff(diff, folder)
    assert [name for name in changed if "/contracts/" not in name] == ["infinite_memory/models.py"]
    with install(package, folder / "home") as installation:
        yield installation


def store(moody: Installation, content: str, **metadata: Any) -> str:
    reply = moody.call("store_memory", content=content, metadata=metadata)
    assert reply["status"] == "OK", reply
    assert "warnings" not in reply
    return str(reply["memory_id"])


def texts(reply: Json) -> list[str]:
    assert reply["status"] == "OK", reply
    assert "warnings" not in reply
    return [result["text"] for result in reply["results"]]


def test_it_is_stored_and_changed(moody: Installation) -> None:
    memory_id = store(moody, "We won the regatta.", mood="Happy", weather="windy")
    memory = moody.call("get_memory", memory_id=memory_id)["memory"]
    assert (memory["mood"], memory["metadata"]) == ("Happy", {"weather": "windy"})
    assert moody.call("update_memory", memory_id=memory_id, metadata={"mood": "calm"})["status"] == "OK"
    reply = moody.call("get_memory", memory_id=memory_id)
    assert (reply["memory"]["mood"], reply["revisions"][0]["mood"]) == ("calm", "Happy")
    refused = moody.call("store_memory", content="x", metadata={"mood": 7})
    assert "metadata.mood" in refused["error"]


def test_it_is_filtered_by(moody: Installation) -> None:
    store(moody, "The train to Hull was late.", mood="Angry")
    store(moody, "The train to York was on time.", mood="Pleased")
    asked = {"query": "How was the train?", "filter": {"mood": "ANGRY", "scope": "ALL"}}
    for mode in ("hybrid", "semantic", "text"):
        assert texts(moody.call("retrieve_memory", **asked, mode=mode)) == ["The train to Hull was late."]
    assert texts(moody.call("list_memories", filter={"mood": "pleased"})) == ["The train to York was on time."]
    assert texts(moody.call("list_memories", filter={"mood": "bored"})) == []
    [old] = texts(moody.call("retrieve_memory", query="When was the boiler serviced?", top_k=1))
    assert old == "The boiler was serviced in May."


def test_a_recall_says_that_it_was_left_out_for_it(moody: Installation) -> None:
    memory_id = store(moody, "The lecture on bees was long.", mood="Tired")
    asked = {"query": "lecture", "filter": {"mood": "awake"}, "explain_id": memory_id}
    explained = moody.call("retrieve_memory", **asked)["explained"]
    assert (explained["reason"], explained["filter"]) == ("filter", ["mood"])


def test_the_index_keeps_it_when_it_is_loaded_again(moody: Installation) -> None:
    store(moody, "The garden was full of frost.", mood="Quiet")
    assert moody.command("daemon", "stop").returncode == 0
    assert texts(moody.call("list_memories", filter={"mood": "quiet"})) == ["The garden was full of frost."]
    asked = {"query": "frost garden", "filter": {"mood": "quiet"}, "mode": "text"}
    assert texts(moody.call("retrieve_memory", **asked)) == ["The garden was full of frost."]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_it_is_exported_and_imported(moody: Installation, tmp_path: Path, form: str) -> None:
    memory_id = store(moody, f"The {form} was written at night.", mood="Weary")
    exported = Path(moody.call("export_memory", format=form)["path"])
    if form == "csv":
        with exported.open(encoding="utf-8", newline="") as file:
            [row] = [row for row in csv.DictReader(file) if row["memory_id"] == memory_id]
    else:
        lines = [json.loads(line) for line in exported.read_text("utf-8").splitlines()]
        [row] = [line for line in lines if line.get("memory_id") == memory_id and line["kind"] == "memory"]
    assert row["mood"] == "Weary"
    package = Path(moody.environ["PYTHONPATH"]) / "infinite_memory"
    with install(package, tmp_path / "other") as other:
        done = other.command("import", str(exported))
        assert done.returncode == 0, done.stderr
        assert other.call("get_memory", memory_id=memory_id)["memory"]["mood"] == "Weary"


def test_clients_are_told_of_it(moody: Installation) -> None:
    client = moody.serve()
    client.initialize()
    tools = {tool["name"]: tool for tool in client.rpc(1, "tools/list")["result"]["tools"]}
    said = tools["store_memory"]["inputSchema"]["properties"]["metadata"]["properties"]["mood"]
    assert said == {"type": "string", "minLength": 1, "description": "How its author felt"}
    assert "mood" in tools["retrieve_memory"]["inputSchema"]["properties"]["filter"]["properties"]
