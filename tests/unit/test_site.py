"""What the documentation is made of, as it is in the checkout: links, figures, drawings, and files of others.

The site that is built of it is looked at by tests/integration/test_built_site.py.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROOT_FILES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def links_of(name: str) -> Iterator[tuple[str, str]]:
    for match in _LINK.finditer((ROOT / name).read_text("utf-8")):
        path, _, anchor = (match[1] or match[2]).partition("#")
        if not urlsplit(path).scheme:
            yield path, anchor


@pytest.mark.parametrize("name", ROOT_FILES)
def test_every_link_of_a_file_at_the_root_leads_somewhere(name: str) -> None:
    for path, anchor in links_of(name):
        target = ROOT / path if path else ROOT / name
        assert target.exists(), f"{name}: {path}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, f"{name}: {path}#{anchor}"


def test_the_readme_is_of_one_page() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    measured = (ROOT / "docs" / "performance-peers.md").read_text("utf-8")
    for title, row in (
        ("CPU of a recall, ms", "CPU of retrieve, ms"),
        ("CPU of a store, ms", "CPU of store, ms"),
        ("Memory of ten windows, MiB", "memory of 10 windows, resident, MiB"),
    ):
        [(own, database, peer)] = re.findall(
            rf"^\| {row} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", measured, re.MULTILINE
        )
        [(shown, shown_peer)] = re.findall(rf"^\| {title} \| ([\d.,]+) \| ([\d.,]+) \|", readme, re.MULTILINE)
        assert float(shown.replace(",", "")) == pytest.approx(float(own) + float(database)), title
        assert float(shown_peer.replace(",", "")) == float(peer), title


def test_what_the_site_ships_of_others_is_what_its_manifest_says() -> None:
    folder = ROOT / "docs" / "assets" / "vendor"
    for part in json.loads((folder / "manifest.json").read_text("utf-8"))["parts"]:
        assert (folder / part["licence_file"]).is_file()
        for name, digest in part["files"].items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_the_drawings_are_current() -> None:
    script = ROOT / "scripts" / "make_drawings.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), "run scripts/make_drawings.py"
