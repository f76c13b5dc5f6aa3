"""The documentation's site as it is built: without a warning, every link leads somewhere, pages are short and say their purpose first.

What the pages show is carried out by tests/end_to_end/test_document_blocks.py; `tests/unit/test_site.py` reads the files themselves.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from infinite_memory.sdk import results
from tests.browser import PATIENCE_MS, launched

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_WORDS = 1500
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
