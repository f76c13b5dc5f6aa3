"""The examples of the reference's pages (docs/reference/requests-remembering.md and its sisters), sent again in order and compared."""

from __future__ import annotations

import json
from pathlib import Path

from tests.doc_blocks import PATIENT
from tests.doc_matching import Names, differences
from tests.processes import ROOT, Installation, need_parts

EXAMPLES = json.loads((ROOT / "tests" / "data" / "docs" / "requests.json").read_text("utf-8"))


def test_the_examples_of_the_reference_get_the_replies_that_it_shows(tmp_path: Path) -> None:
    need_parts()
    home = tmp_path / "home"
    names = Names(home)
    with Installation(home, PATIENT) as installation:
        (home / "imports").mkdir(parents=True)
        (home / "imports" / "notes.csv").write_text("text,tags\nThe tap drips,house\n", "utf-8")
        client = installation.serve()
        for example in EXAMPLES:
            client.send(json.loads(names.to_actual(json.dumps(example["request"]))))
            assert differences(example["reply"], client.reply(), names) == [], example["request"]
