"""A real browser for tests of the page: Debian's Chromium, driven by Playwright.

Whatever a page does against its Content-Security-Policy, asks of another host, or throws, is collected and fails the test that opened it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from tests.processes import PATIENCE_S, Installation

HELP = "no Chromium was found: apt-get install chromium, or name one in INFINITE_MEMORY_TEST_CHROMIUM"
AXE = Path(__file__).parent / "data" / "vendor" / "axe.min.js"
SERIOUS = ("serious", "critical")
WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(
  `${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
PATIENCE_MS = 1000 * PATIENCE_S
expect.set_options(timeout=PATIENCE_MS)


def find_chromium() -> str:
    """Return the path of a Chromium; skips on a desk, and fails in CI, where there is none."""
    named = os.environ.get("INFINITE_MEMORY_TEST_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(HELP)
        pytest.skip(HELP)
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """Start the browser for a while."""
    arguments = ["--no-sandbox", "--disable-dev-shm-usage"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """One person's browser window, and what went wrong in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        context.set_default_timeout(PATIENCE_MS)
        self.page: Page = context.new_page()
        self.faults: list[str] = []
        self.page.add_init_script(WATCH)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("console", lambda said: self.faults.append(said.text) if "Content Security" in said.text else None)
        self.page.on("request", self._look)

    def _look(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "file:", "blob:", "about:")):
            self.faults.append(f"asks another host: {request.url}")

    def open(self, path: str = "/") -> Page:
        """Go to an address of the page."""
        self.page.goto(self.url + path.lstrip("/"))
        return self.page

    def log_in(self, secret: str) -> Page:
        """Log in with a token or a code."""
        self.open("/page/login")
        self.page.get_by_label("Token, or a code").fill(secret)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("heading", level=1, name="Search")).to_be_visible()
        return self.page

    def check(self) -> None:
        """Fail where the page did what its policy forbids, asked another host, or threw."""
        violations = self.page.evaluate("window.__violations || []") if self.page.url.startswith(self.url) else []
        assert self.faults + violations == []

    def check_accessible(self) -> None:
        """Fail where axe-core finds anything serious in what is shown."""
        self.page.evaluate(AXE.read_text("utf-8") + "; 0")  # evaluated by the debugger, which no policy binds
        found: dict[str, Any] = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            f"{one['impact']} {one['id']}: {one['help']}: {json.dumps([node['html'] for node in one['nodes']][:3])}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
        ]
        assert serious == [], "\n".join(serious)


@contextmanager
def window(browser: Browser, url: str, **options: Any) -> Iterator[Window]:
    """Open a window with cookies of its own; what went wrong in it fails at the end."""
    context = browser.new_context(**options)
    try:
        opened = Window(context, url)
        yield opened
        opened.check()
    finally:
        context.close()


def get_login(installation: Installation) -> tuple[str, str]:
    """Return the page's address and a code that opens it, as `infinite-memory open` gives them."""
    done = installation.command("open", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["url"], told["code"]
