"""The page over many memories, as a person uses it: pages and not lists, every number whole. With ``--long`` a hundred thousand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Window
from tests.many_memories import COPIES, SCOPES, fill, get_text
from tests.page_fixtures import browser, login, page, person
from tests.processes import LONG, Installation, need_parts, until

__all__ = ["browser", "login", "page", "person"]

COUNT = 100_000 if os.environ.get("INFINITE_MEMORY_TEST_LONG") else 1_500
GROUPS = COUNT // COPIES
PATIENCE_MS = 180_000  # for what reads every memory


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home with many memories."""
    need_parts()
    path = tmp_path_factory.mktemp("many") / "home"
    fill(path, COUNT)
    with Installation(
        path, {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_EMBEDDING__PREPARE": "false"}, is_stopped=LONG
    ) as one:
        assert one.command("daemon", "start").returncode == 0
        listing = {"filter": {"scope": "ALL"}, "limit": 1}
        until(lambda: one.call("list_memories", **listing)["status"] == "OK", "the index is built", PATIENCE_MS / 1000)
        until(lambda: one.status()["text_index"]["state"] == "ready", "the words are indexed", PATIENCE_MS / 1000)
        yield one


def test_one_of_many_is_found_while_it_is_typed_and_by_its_time(page: Page, person: Window) -> None:
    number = COUNT // 2 - COUNT // 2 % COPIES
    expect(page.get_by_text(f"{COUNT:,} memories, newest first")).to_be_visible()
    expect(page.locator("#results article")).to_have_count(20)
    page.get_by_role("link", name="More", exact=True).click()
    expect(page.locator("#results article").first).not_to_contain_text(get_text(COUNT - 1))
    page.get_by_role("searchbox").press_sequentially(get_text(number), delay=20)
    found = page.locator("#results article").filter(has_text=f"Note {number:,} about")
    expect(found.first).to_be_visible()
    page.get_by_text("Filter", exact=True).click()
    page.get_by_label("Time in words").fill("2020")
    expect(page.locator("#results .frame")).to_contain_text("Wed 1 Jan 2020 to Thu 31 Dec 2020")
    expect(found).to_have_count(0)
    person.check_accessible()


def test_years_lead_to_one_day_of_many(page: Page, person: Window) -> None:
    person.open("/page/timeline")
    expect(page.get_by_text(f"{COUNT:,} memories", exact=True)).to_be_visible()
    page.get_by_role("link", name="2022:").click()
    page.get_by_role("link", name="March 2022:").click()
    page.get_by_role("link", name="14 March 2022:").click()
    expect(page.get_by_text("oldest first")).to_be_visible()
    expect(page.get_by_text("A conversation").or_(page.locator("ol.memories > li")).first).to_be_visible()
    person.check_accessible()


def test_scopes_and_health_count_all_of_them(page: Page, person: Window) -> None:
    person.open("/page/scopes")
    rows = page.get_by_role("row")
    counts = [int(rows.filter(has_text=name).locator(".number").inner_text().replace(",", "")) for name in SCOPES]
    assert sum(counts) == COUNT
    person.open("/page/health")
    expect(page.get_by_text(f"{COUNT:,} memories, all indexed")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("All is well.")).to_be_visible()
    person.check_accessible()


def test_every_group_of_duplicates_is_reached_by_pages(page: Page, person: Window) -> None:
    person.open("/page/duplicates")
    page.get_by_role("button", name="Look").click()
    back = page.get_by_role("link", name="Back", exact=True)
    groups = page.get_by_role("group", name="which one stays?")
    expect(groups.first.or_(back)).to_be_visible(timeout=PATIENCE_MS)
    if back.is_visible():
        back.click()
    expect(page.get_by_text(f"{GROUPS:,} groups found; 1 to 10 are shown")).to_be_visible()
    person.check_accessible()
    page.get_by_role("link", name="More", exact=True).click()
    expect(page.get_by_role("group", name="Group 11: which one stays?")).to_be_visible()
    page.get_by_role("group", name="Group 12: which one stays?").get_by_role(
        "button", name="Keep it unchanged, forget the other"
    ).click()
    expect(page.get_by_text("One is kept, 1 forgotten.")).to_be_visible()
    expect(page.get_by_text(f"{GROUPS - 1:,} groups found; 11 to 20 are shown")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back")).to_be_visible()
    person.open(f"/page/duplicates?offset={GROUPS}")  # the last page
    expect(groups).to_have_count((GROUPS - 1) % 10 or 10)
    expect(page.get_by_role("group", name=f"Group {GROUPS - 1:,}: which one stays?")).to_be_visible()
    expect(page.get_by_role("link", name="More", exact=True)).to_have_count(0)
    page.get_by_role("link", name="Before", exact=True).click()
    expect(groups).to_have_count(10)


def test_a_tag_of_many_is_shown_before_it_is_forgotten(page: Page, person: Window) -> None:
    person.open("/page/forget")
    page.get_by_label("Tag").fill("shelf:7")
    page.get_by_role("button", name="Show what would go").click()
    expect(page.get_by_role("heading", name=f"{COUNT // 100:,} memories would go")).to_be_visible()
    button, first = (
        one.bounding_box()
        for one in (
            page.get_by_role("button", name=re.compile("^Forget")),
            page.locator("ol.memories li, ul.memories li").first,
        )
    )
    assert button and first and button["y"] < first["y"], "above what would go, however much that is"
    person.check_accessible()
