"""`scripts/release`: version, CHANGELOG and tag in one step, and nothing where something is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that has what a release changes."""
    for name in ("scripts/release", "scripts/release.py", "infinite_memory/__init__.py", "server.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 9.0.0 (not yet released)\n\n- Tea.\n\n## 0.1.0 (2025-01-01)\n\n- All.\n"
    )
    for command in (
        ["init", "-q"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.org"], ["add", "."],
        ["commit", "-qm", "all"],
    ):  # fmt: skip
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def release(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "scripts" / "release.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def git(checkout: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=True).stdout


def test_a_release_sets_the_version_dates_the_changelog_and_tags(checkout: Path) -> None:
    assert release(checkout, "9.0.0", "--dry-run").returncode == 0
    assert git(checkout, "status", "--porcelain") == ""
    done = release(checkout, "9.0.0")
    assert done.returncode == 0, done.stderr
    assert '__version__ = "9.0.0"' in (checkout / "infinite_memory" / "__init__.py").read_text()
    server = json.loads((checkout / "server.json").read_text())
    assert (server["version"], server["packages"][0]["version"]) == ("9.0.0", "9.0.0")
    assert "not yet released" not in (checkout / "CHANGELOG.md").read_text()
    assert git(checkout, "tag").split() == ["v9.0.0"]
    assert "- Tea." in git(checkout, "tag", "-n9", "v9.0.0")
    assert git(checkout, "status", "--porcelain") == ""
    assert release(checkout, "9.0.0", "--check").returncode == 0
    assert release(checkout, "9.0.0", "--notes").stdout == "- Tea.\n"


@pytest.mark.parametrize(
    ("version", "reason"),
    [("9", "is not a version"), ("0.0.1", "is older than"), ("9.0.1", "has no section")],
)
def test_what_cannot_be_released_changes_nothing(checkout: Path, version: str, reason: str) -> None:
    done = release(checkout, version)
    assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
    assert git(checkout, "tag") == ""
    assert git(checkout, "status", "--porcelain") == ""


def test_a_changed_file_or_an_older_tag_stops_it(checkout: Path) -> None:
    git(checkout, "tag", "v9.0.0")
    assert "a tag v9.0.0 already" in release(checkout, "9.0.0").stderr
    (checkout / "server.json").write_text("{}")
    assert "commit or put aside" in release(checkout, "9.0.0").stderr
    assert release(checkout, "9.0.0", "--check").returncode == 1
