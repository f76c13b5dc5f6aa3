"""The viewer of the OpenAPI document: shown without a token, tried with one, and nothing asked of another host."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.browser import get_login, window
from tests.page_fixtures import browser, home
from tests.processes import Installation

__all__ = ["browser", "home"]


def test_the_api_is_shown_and_tried_without_anything_from_elsewhere(home: Installation, browser: Browser) -> None:
    url, _ = get_login(home)
    with window(browser, url) as opened:
        page = opened.open("/docs")
        expect(page.locator("#api .title")).to_contain_text("InfiniteMemory")
        page.locator("#operations-default-health").get_by_role("button").first.click()
        page.get_by_role("button", name="Try it out").click()
        page.get_by_role("button", name="Execute").click()
        expect(page.locator(".live-responses-table")).to_contain_text('"status"')
        assert page.locator("#api .opblock").count() >= 18
