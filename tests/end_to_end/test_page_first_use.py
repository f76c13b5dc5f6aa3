"""Somebody who saw only the README does, by clicks and keys alone, what people come to the page for; nothing is known of addresses."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser import Window
from tests.page_fixtures import browser, home, login, memory, page, person, store
from tests.processes import Client, until

__all__ = ["browser", "home", "login", "memory", "page", "person", "store"]

Store = Callable[..., str]


def last_march() -> dt.datetime:
    """Return a day of last year's March, which "last March" is in every month."""
    return dt.datetime(dt.datetime.now(dt.UTC).year - 1, 3, 14, 10, tzinfo=dt.UTC)


def show_why(result: Locator) -> None:
    """Open what tells why a result was found; a refresh that was under way may close it once."""

    def is_shown() -> bool:
        if not result.get_by_text("Found because").is_visible():
            result.get_by_text("Why", exact=True).click()
        return result.get_by_text("Found because").is_visible()

    until(is_shown, "it is told why")


def test_an_evening_with_the_page(page: Page, person: Window, store: Store, memory: Client) -> None:
    march = last_march().isoformat()
    store("The cooper mended the water barel", scope="House", tags=["barrel"], metadata={"timestamp": march})
    store("The water barrel was painted green", scope="House", metadata={"timestamp": "2020-10-02T10:00:00Z"})
    store("Beans are sown in May", scope="Garden")
    store("Slugs come after rain", scope="Vegetables")
    for number in range(10):
        store(f"Errand {number} of the old list", tags=["errands"])

    # A memory of last March, by words alone, and why it was first.
    page.get_by_role("searchbox").fill("water barrel last march")
    page.get_by_role("link", name=f"show only March {march[:4]}").click()
    expect(page.locator("#results .frame")).to_contain_text(f"1 Mar {march[:4]} to ")
    results = page.locator("#results article")
    expect(results).to_have_count(1)
    show_why(results.first)

    # Its typo is mended, and it moves.
    results.first.get_by_role("link", name="The cooper").click()
    page.get_by_role("link", name="Edit").click()
    page.locator("textarea:focus").press("Control+End")
    for _ in "el":
        page.keyboard.press("Backspace")
    page.keyboard.type("rel")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".text.whole")).to_have_text("The cooper mended the water barrel")
    page.get_by_role("link", name="Move").click()
    page.get_by_label("Into the scope").select_option("Garden")
    page.get_by_role("button", name="Move").click()
    expect(page.get_by_text("Moved to Garden.")).to_be_visible()
    expect(page.locator(".history > li").first).to_contain_text(re.compile(r"Version 3, moved \w+ \d+ \w+ 20"))

    # A tag with ten memories is forgotten, and comes back.
    page.get_by_role("link", name="Search", exact=True).click()
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.locator("#results").get_by_role("link", name="errands").first.click()
    expect(page.get_by_text("10 memories, newest first")).to_be_visible()
    page.get_by_role("link", name="Forget all with this tag").click()
    expect(page.get_by_role("heading", name="10 memories would go")).to_be_visible()
    page.get_by_role("button", name="Forget 10 memories").click()
    expect(page.get_by_text("10 memories are forgotten.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back: 10 memories.")).to_be_visible()
    assert memory.ask("search_by_tag", tag="errands")["total"] == 10

    # Two scopes become one.
    page.get_by_role("link", name="Scopes").click()
    page.get_by_role("link", name="Change Vegetables").click()
    page.get_by_label("Into", exact=True).select_option("Garden")
    page.get_by_role("button", name="Show what would move").click()
    expect(page.get_by_text("1 memory would move into Garden")).to_be_focused()
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_text("moved from Vegetables into Garden.")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Vegetables")).to_have_count(0)

    # A backup is made and verified.
    page.get_by_role("link", name="Backups and jobs").click()
    page.get_by_role("button", name="Make a backup").click()
    expect(page.get_by_text("is written and read back")).to_be_visible()
    page.get_by_role("link", name="Back", exact=True).click()
    page.get_by_role("button", name="Verify").first.click()
    expect(page.get_by_text("is whole")).to_be_visible()
    person.check_accessible()
