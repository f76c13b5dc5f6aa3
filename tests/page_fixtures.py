"""Fixtures of the tests of the page: one browser and one daemon for a whole file, and windows that are logged in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, StorageState

from tests.browser import Window, get_login, launched, window
from tests.processes import LONG, Client, Installation, need_parts


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon has HTTP on at a free port."""
    need_parts()
    path = tmp_path_factory.mktemp("page") / "home"
    with Installation(
        path, {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_EMBEDDING__PREPARE": "false"}, is_stopped=LONG
    ) as one:
        assert one.command("daemon", "start").returncode == 0
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a whole file."""
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def memory(home: Installation) -> Client:
    """A client that stores and asks beside the browser."""
    return home.serve()


@pytest.fixture(scope="module")
def login(home: Installation, browser: Browser) -> tuple[str, StorageState]:
    """The page's address, and the cookies of a login of the owner's."""
    url, code = get_login(home)
    with window(browser, url) as opened:
        opened.log_in(code)
        return url, opened.context.storage_state()


@pytest.fixture
def person(login: tuple[str, StorageState], browser: Browser) -> Iterator[Window]:
    """A window in which the owner is logged in."""
    url, state = login
    with window(browser, url, storage_state=state) as opened:
        opened.open("/")
        yield opened


@pytest.fixture
def page(person: Window) -> Page:
    """The page in that window."""
    return person.page


@pytest.fixture
def store(memory: Client) -> Callable[..., str]:
    """Stores a memory; returns its id."""

    def stored(text: str, scope: str = "Global", **fields: object) -> str:
        reply = memory.ask("store_memory", content=text, scope=scope, **fields)
        assert reply["status"] == "OK", reply
        return str(reply["memory_id"])

    return stored
