"""Records what the program answers to the example requests of the reference: ``python scripts/make_reference_examples.py``.

tests/data/docs/requests.json holds the requests in order, as one session in an empty home; this writes the replies into it, with names
and instants that stay the same from run to run. tests/end_to_end/test_reference_examples.py sends them again and compares.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.doc_matching import SHOWN_HOME
from tests.processes import ROOT, Installation

FILE = ROOT / "tests" / "data" / "docs" / "requests.json"
STAMP = "2026-11-29T10-47-06Z"
_NAME = re.compile(r"\b[0-9a-f]{24}\b|\b(?:backup|export)_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ")
_NOW = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(?!000)\d{3}Z")


def record(examples: list[dict[str, Any]], home: Path) -> None:
    """Send every request and put its reply beside it."""
    shown: dict[str, str] = {}
    actual: dict[str, str] = {}
    with Installation(home) as installation:
        (home / "imports").mkdir(parents=True)
        (home / "imports" / "notes.csv").write_text("text,tags\nThe tap drips,house\n", "utf-8")
        client = installation.serve()
        for example in examples:
            request = json.dumps(example["request"], ensure_ascii=False)
            client.send(json.loads(_NAME.sub(lambda match: actual.get(match[0], match[0]), request)))
            reply = json.dumps(client.reply(), ensure_ascii=False).replace(str(home), SHOWN_HOME)
            for name in _NAME.findall(reply):
                if name not in shown:
                    kind = name.partition("_")[0]
                    shown[name] = f"{kind}_{STAMP}" if "_" in name else f"6b0c02a73812a6dfa42e55{len(shown):02x}"
                    actual[shown[name]] = name
            for name, stands in shown.items():
                reply = reply.replace(name, stands)
            example["reply"] = cut(json.loads(_NOW.sub("2026-11-29T10:47:03.882Z", reply)), example.get("show"))


def cut(reply: dict[str, Any], keys: list[str] | None) -> dict[str, Any]:
    """Leave those members of the reply that the document shows; ``...`` stands for the others."""
    if keys is None:
        return reply
    return {key: value for key, value in reply.items() if key in keys} | {"...": "..."}


def main() -> int:
    """Write the file again."""
    examples = json.loads(FILE.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        record(examples, Path(folder) / "home")
    FILE.write_text(json.dumps(examples, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
