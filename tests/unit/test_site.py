"""The documentation's site: it builds without a warning, every link leads somewhere, pages are short and say their purpose first.

What the pages show is carried out by tests/end_to_end/test_document_blocks.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from infinite_memory.sdk import results
from tests.browser import PATIENCE_MS, launched

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_WORDS = 1500
ROOT_FILES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_BEFORE_TEXT = frozenset({"script", "style", "nav", "button", "title"})


class Page(HTMLParser):
    """What a built page holds: its links, its anchors, what it loads, and the words of its article."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.text: list[str] = []
        self.paragraphs: list[str] = []
        self._article = self._skipped = 0
        self._paragraph = False
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("script", "img", "iframe") and "src" in values:
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(values.get("href", ""))
        self._article += tag == "article"
        self._skipped += tag in _BEFORE_TEXT
        if tag == "p" and self._article and not self._skipped:
            self._paragraph = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        self._article -= tag == "article"
        self._skipped -= tag in _BEFORE_TEXT
        if tag == "p":
            self._paragraph = False

    def handle_data(self, data: str) -> None:
        if self._article and not self._skipped:
            self.text.append(data)
            if self._paragraph:
                self.paragraphs[-1] += data

    @property
    def words(self) -> int:
        """How many words the article has; figures and marks are none."""
        return sum(any(letter.isalpha() for letter in word) for word in " ".join(self.text).split())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # with --quiet a warning would be no fault
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page of the site, by its file."""
    return {file: Page(file) for file in sorted(site.rglob("*.html")) if file.name != "404.html"}


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for file, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or link == "#":
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else set()
            if not target.is_file() or (address.fragment and unquote(address.fragment) not in anchors):
                broken.append(f"{file.relative_to(site)}: {link}")
    assert not broken


def test_the_site_loads_nothing_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    loaded = {address for page in pages.values() for address in page.loaded}
    assert len(loaded) > 5
    assert not [address for address in loaded if urlsplit(address).scheme or address.startswith("//")]
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text("utf-8")), sheet


def test_the_reference_has_every_field_that_the_sdk_gives_back(site: Path, pages: dict[Path, Page]) -> None:
    page = pages[site / "reference" / "sdk-results.html"]
    shown = [name for name, kind in vars(results).items() if dataclasses.is_dataclass(kind)]
    assert len(shown) > 8
    for name in shown:
        for field in vars(results)[name].__annotations__:
            assert f"infinite_memory.sdk.results.{name}.{field}" in page.anchors


def test_no_page_is_too_long_to_be_read_in_one_go(site: Path, pages: dict[Path, Page]) -> None:
    long = {str(file.relative_to(site)): page.words for file, page in pages.items() if page.words > MAX_WORDS}
    assert not long


def test_every_page_begins_with_its_purpose(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        assert page.paragraphs, file
        assert len(page.paragraphs[0].split()) >= 5, f"{file.relative_to(site)}: {page.paragraphs[0]}"


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


def test_the_sites_search_works_from_a_folder_and_asks_no_other_host(site: Path) -> None:
    with launched() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.get_by_role("textbox", name="Search").first.fill("passphrase")
        page.locator(".md-search-result__link").first.wait_for()
        assert "passphrase" in (page.locator(".md-search-result__list").text_content() or "").lower()
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))]


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
