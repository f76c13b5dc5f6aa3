"""The OpenAPI document against the real daemon: no fault of ours, and no reply that the document does not describe.

Schemathesis makes the requests from the document, good and bad ones, and judges every reply. Two of its checks stay out: our fields
take more than their schemas say ("5" is 5, unknown fields are ignored with a warning) and some ask for more (a time in words must
have a time in it), so a bad request need not be refused, nor a well-formed one accepted.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.http_client import owner, serving
from tests.processes import LONG, Installation, need_parts

PHASES = {"to nothing": "examples,coverage,fuzzing"}
"""Going through every field and its edges takes a minute; by tokens that see less only a long run does that."""

EXAMPLES = 200 if LONG else 6  # of each route, beside those that go through every field and its edges
LEFT_OUT = "negative_data_rejection,positive_data_acceptance"
TIMEOUT_S = 3600 if LONG else 300


@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize("bound", ["to nothing", "to a user", "to a scope"])
def test_every_route_answers_as_the_document_says(tmp_path: Path, bound: str) -> None:
    need_parts()
    settings = {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_HTTP__RATE": ""}
    with Installation(tmp_path / "home", settings) as one, serving(one) as web:
        root = owner(one, web)
        root.post("memories", content="My favorite color is blue", tags=["preferences"])
        root.post("memories", content="I prefer dark mode", user_id="alice", agent_id="butler")
        token = root.token
        if bound != "to nothing":
            argument = ["--user", "alice"] if bound == "to a user" else ["--scope", "Desk"]
            token = one.command("tokens", "create", *argument).stdout.strip()
        count = EXAMPLES if LONG or bound in PHASES else EXAMPLES // 3
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"{web.base_url}/openapi.json",
             "-H", f"Authorization: Bearer {token}", "--checks", "all", "--exclude-checks", LEFT_OUT,
             "--phases", PHASES["to nothing"] if LONG else PHASES.get(bound, "fuzzing"), "--max-examples", str(count), "--seed", "1",
             "--generation-database", "none", "--warnings", "off", "--suppress-health-check", "all", "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        log = (one.home / "logs" / "infinite-memory.log").read_text("utf-8")
        assert "Traceback" not in log, log[log.index("Traceback") :][:4000]
