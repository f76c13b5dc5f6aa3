"""Timeline, duplicates, import, and what appears by itself: in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from tests.browser import Window, window
from tests.page_fixtures import browser, home, login, memory, page, person, store
from tests.processes import Client, Installation, until

__all__ = ["browser", "home", "login", "memory", "page", "person", "store"]

Store = Callable[..., str]


def test_the_timeline_leads_from_years_to_a_day_with_its_conversation(page: Page, person: Window, store: Store) -> None:
    for minute, text in enumerate(("Shall we buy the boat?", "It leaks", "Then we do not")):
        store(text, metadata={"timestamp": f"2023-05-17T10:0{minute}:00Z", "conversation_id": "boat"})
    store("A lone remark", metadata={"timestamp": "2023-05-17T18:00:00Z"})
    store("Another month", metadata={"timestamp": "2023-08-02T18:00:00Z"})
    store("Two years later", metadata={"timestamp": "2025-08-02T18:00:00Z"})
    person.open("/page/timeline")
    person.check_accessible()
    page.get_by_role("link", name="2023: 5 memories").click()
    page.get_by_role("link", name="May 2023: 4 memories").click()
    expect(page.get_by_role("status").filter(has_text="4 memories, oldest first")).to_be_visible()
    expect(page.locator(".thread").get_by_role("listitem")).to_have_count(3)
    expect(page.get_by_role("link", name="A lone remark")).to_be_visible()
    person.check_accessible()
    page.get_by_role("link", name="Wednesday 17 May 2023: 4 memories").focus()
    page.keyboard.press("Enter")
    thread = page.locator(".thread")
    expect(thread.get_by_role("listitem")).to_have_count(3)
    expect(page.get_by_role("link", name="A lone remark")).to_be_visible()
    person.check_accessible()
    page.get_by_role("link", name="week 20").click()
    expect(page.get_by_role("link", name="Wednesday 17 May 2023: 4 memories")).to_be_visible()
    page.get_by_role("link", name="Week 21").click()
    expect(page.get_by_text("0 memories").first).to_be_visible()
    thread_scope = page.get_by_role("combobox", name="Scope")
    expect(thread_scope).to_be_visible()
    person.open("/page/timeline?at=2023-99")
    expect(page.get_by_role("alert")).to_contain_text("is no year, month, week or day")


def test_a_memory_shows_its_neighbours_and_links(page: Page, person: Window, store: Store) -> None:
    ids = [
        store(text, metadata={"timestamp": f"2022-01-01T09:0{minute}:00Z", "conversation_id": "trip"})
        for minute, text in enumerate(("First we pack", "Then we drive", "At last we arrive"))
    ]
    person.open(f"/page/memories/{ids[1]}")
    expect(page.locator(".thread li")).to_have_text(["First we pack", "Then we drive", "At last we arrive"])
    page.get_by_role("link", name="At last we arrive").click()
    expect(page.locator(".text.whole")).to_have_text("At last we arrive")


def test_of_duplicates_one_is_kept_with_the_tags_of_all_and_it_is_undone(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    ids = [store("The spare key is with the neighbour", tags=[tag]) for tag in ("house", "keys", "neighbour")]
    person.open("/page/duplicates")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_text("group found").or_(page.get_by_text("groups found"))).to_be_visible()
    person.check_accessible()
    group = page.get_by_role("group").filter(has_text="spare key")
    group.get_by_role("radio").first.check()
    group.get_by_role("button", name="Merge").click()
    expect(page.get_by_text("One is kept, 2 forgotten.")).to_be_visible()
    found = memory.ask("search_by_tag", tag="neighbour", query="spare key")["results"]
    assert [(one["memory_id"], sorted(one["tags"])) for one in found] == [(ids[0], ["house", "keys", "neighbour"])]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back")).to_be_visible()
    assert memory.ask("get_memory", memory_id=ids[2])["status"] == "OK"


def test_a_file_is_looked_at_and_then_imported(
    page: Page, person: Window, memory: Client, tmp_path: Path, home: Installation
) -> None:
    file = tmp_path / "my notes.csv"
    rows = (
        "The tent has a hole,camping,2024-03-02,Ada",
        '<img src=x onerror=alert(1)> مرحبا,"<b>camping</b>,camping",,',
        "x,,28/03/2026,",
    )
    file.write_text("text,tags,date,speaker\n" + "\n".join(rows) + "\n", "utf-8")
    person.open("/page/import")
    person.check_accessible()
    page.get_by_label("Or choose one").set_input_files(file)
    expect(page.get_by_text("2 memories would be added")).to_be_visible()
    samples = page.locator(".samples li")
    expect(samples.first).to_have_text(re.compile(r"The tent has a hole\s*Sat 2 Mar 2024\s*Global\s*camping\s*Ada"))
    expect(samples.last).to_contain_text("<img src=x onerror=alert(1)> مرحبا")
    expect(samples.last.locator(".tag").first).to_have_text("<b>camping</b>")
    expect(samples.last).to_contain_text("no date")
    expect(page.get_by_role("definition").filter(has_text="Global 2")).to_be_visible()
    page.get_by_text("Each that is left out").click()
    expect(page.get_by_role("listitem").filter(has_text="28/03/2026")).to_be_visible()
    person.check_accessible()
    assert memory.ask("search_by_tag", tag="camping")["total"] == 0
    page.get_by_role("button", name="Import 2 memories").click()
    expect(page.get_by_text("2 memories added")).to_be_visible()
    assert memory.ask("search_by_tag", tag="camping")["total"] == 2
    assert list((home.home / "uploads").iterdir()) == []


def test_a_file_goes_to_the_scope_that_is_chosen_whether_it_was_looked_at_again_or_not(
    page: Page, person: Window, memory: Client, tmp_path: Path
) -> None:
    for scope in ("Attic", "Cellar"):
        memory.ask("create_memory_scope", scope_name=scope)
    file = tmp_path / "lamps.csv"
    file.write_text("text,tags\nThe lamp hums,lamps\n", "utf-8")
    person.open("/page/import")
    page.get_by_label("Or choose one").set_input_files(file)
    expect(page.get_by_role("definition").filter(has_text="Global 1")).to_be_visible()
    chosen = page.get_by_label("Into the scope")
    chosen.focus()
    chosen.select_option("Attic")
    expect(page.get_by_role("definition").filter(has_text="Attic 1")).to_be_visible()
    expect(chosen).to_be_focused()  # the next one can be chosen by key
    page.get_by_label("Format").select_option("chatgpt")
    expect(page.get_by_role("alert").filter(has_text="is not in the form chatgpt")).to_be_visible()
    expect(page.locator(".htmx-added")).to_have_count(0)
    page.get_by_label("Format").select_option("csv")
    expect(page.get_by_role("definition").filter(has_text="Attic 1")).to_be_visible()
    page.route("**/page/import?*", lambda route: route.abort())  # a look that does not come in time
    chosen.select_option("Cellar")
    page.get_by_role("button", name="Import 1 memory").click()
    expect(page.get_by_text("1 memory added to Cellar")).to_be_visible()
    assert [one["scope"] for one in memory.ask("search_by_tag", tag="lamps")["results"]] == ["Cellar"]


def test_a_file_may_be_dropped_anywhere_in_the_view_but_one_at_a_time(page: Page, person: Window) -> None:
    drop = """(names) => {
      const moved = new DataTransfer();
      for (const name of names) moved.items.add(new File(["text,tags\\nA dropped note,dropped\\n"], name));
      const tell = (type) => !document.querySelector("h1").dispatchEvent(
        new DragEvent(type, {dataTransfer: moved, bubbles: true, cancelable: true}));
      return [tell("dragover"), tell("drop")];
    }"""
    person.open("/page/import")
    assert page.evaluate(drop, ["one.csv", "two.csv"]) == [True, True]
    expect(page.get_by_text("Nothing was sent: one file at a time.")).to_be_visible()
    assert page.evaluate(drop, ["one.csv"]) == [True, True]
    expect(page.get_by_text("1 memory would be added")).to_be_visible()
    page.get_by_role("button", name="Another file").click()
    expect(page.get_by_text("is removed again")).to_be_visible()
    person.open("/page/scopes")
    assert page.evaluate(drop, ["one.csv"]) == [False, False]


def test_a_file_that_is_none_is_refused_in_words_and_goes(
    page: Page, person: Window, tmp_path: Path, home: Installation
) -> None:
    file = tmp_path / "picture.bin"
    file.write_bytes(bytes(range(256)) * 10)
    person.open("/page/import")
    page.get_by_label("Or choose one").set_input_files(file)
    expect(page.get_by_role("alert").filter(has_text="This file is not taken")).to_be_visible()
    person.check_accessible()
    page.get_by_role("button", name="Another file").click()
    expect(page.get_by_text("is removed again")).to_be_visible()
    expect(page.get_by_label("Or choose one")).to_be_visible()
    assert list((home.home / "uploads").iterdir()) == []
    person.open("/page/import?file=../http.token")
    expect(page.get_by_role("alert").first).to_contain_text("none that was sent here")


def test_what_an_assistant_stores_appears_by_itself_in_two_windows(
    page: Page, person: Window, store: Store, browser: Browser, login: tuple[str, object], memory: Client
) -> None:
    with window(browser, person.url, storage_state=login[1]) as second:
        second.open("/")
        for one in (page, second.page):
            expect(one.locator("#results")).to_be_visible()
        memory_id = store("The aurora was seen tonight")
        for one in (page, second.page):
            expect(one.locator("#results")).to_contain_text("The aurora was seen tonight")
        second.open(f"/page/memories/{memory_id}/edit")
        second.page.get_by_label("Text").fill("The aurora was seen from the roof")
        second.page.get_by_role("button", name="Save").click()
        expect(page.locator("#results")).to_contain_text("The aurora was seen from the roof")
        memory.ask("delete_memory", target={"memory_id": memory_id})
        expect(page.locator("#results")).not_to_contain_text("The aurora")


def test_somebody_who_reads_is_not_interrupted(page: Page, person: Window, store: Store) -> None:
    store("The old clock stands still")
    page.get_by_role("searchbox").fill("old clock")
    first = page.locator("#results article").filter(has_text="old clock").first
    first.get_by_text("Why", exact=True).click()
    store("The old clock runs again")
    page.get_by_role("button", name="Show them").click()
    expect(page.locator("#results")).to_contain_text("The old clock runs again")
    expect(page.locator("#changed")).to_be_hidden()


def test_news_take_no_click_back(page: Page, person: Window, store: Store) -> None:
    store("The kiln is lit", tags=["kiln"])
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def click_while_news_arrive(text: str, *, is_pressed: bool) -> None:
        """Let the results be replaced between press and release of a link, or while the next view is on its way."""
        person.open("/")
        expect(page.locator("#results")).to_contain_text("The kiln is lit")
        held.clear()
        page.route("**/page/search?*", hold)
        store(text)
        until(lambda: page.wait_for_timeout(50) or held, "the news are asked for")
        page.locator("#results").get_by_role("link", name="kiln", exact=True).first.hover()
        page.mouse.down()
        if not is_pressed:
            page.route("**/?tags=kiln", hold)
            page.mouse.up()
            until(lambda: page.wait_for_timeout(50) or len(held) > 1, "the next view is asked for")
        held[0].continue_()
        page.wait_for_timeout(500)
        page.unroute("**/page/search?*")
        if is_pressed:
            page.mouse.up()
        else:
            held[-1].continue_()
        expect(page.get_by_text("1 memory, newest first")).to_be_visible()
        expect(page).to_have_url(re.compile(r"/\?tags=kiln$"))

    click_while_news_arrive("The kiln is hot", is_pressed=True)
    click_while_news_arrive("The kiln is cold", is_pressed=False)


def test_a_daemon_that_dies_is_said_and_found_again_and_nothing_typed_is_lost(tmp_path: Path, browser: Browser) -> None:
    from tests.browser import get_login
    from tests.processes import need_parts

    need_parts()
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}) as home:
        url, code = get_login(home)
        port = url.rstrip("/").rpartition(":")[2]
        memory_id = home.call("store_memory", content="The dam holds")["memory_id"]
        with window(browser, url) as opened:
            page = opened.log_in(code)
            opened.open(f"/page/memories/{memory_id}/edit")
            page.get_by_label("Text").fill("The dam holds, they say")
            home.kill_everything()
            expect(page.locator("#connection")).to_contain_text("The connection is lost")
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_label("Text")).to_have_value("The dam holds, they say")
            home.environ["INFINITE_MEMORY_HTTP__PORT"] = port
            assert home.command("daemon", "start").returncode == 0
            until(lambda: home.status()["http"]["url"].endswith(port), "the same port answers")
            expect(page.locator("#connection")).to_contain_text("Your login has ended")
            second = opened.context.new_page()
            second.goto(url + "page/login")
            second.get_by_label("Token, or a code").fill(get_login(home)[1])
            second.get_by_role("button", name="Log in").click()
            expect(second.get_by_role("heading", name="Search")).to_be_visible()
            second.close()
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            expect(page.locator("#connection")).to_be_hidden()
            page.get_by_role("button", name="Save").click()
            expect(page.locator(".text.whole")).to_have_text("The dam holds, they say")


def test_every_view_fits_a_phone_and_the_dark(
    person: Window, browser: Browser, login: tuple[str, object], store: Store
) -> None:
    store("A_very_long_word_without_any_break_" * 12 + " 長い言葉 مرحبا", tags=["x" * 120])
    for options in ({"viewport": {"width": 320, "height": 640}}, {"color_scheme": "dark"}):
        with window(browser, person.url, storage_state=login[1], **options) as opened:
            for path in ("/", "/page/timeline", "/page/scopes", "/page/duplicates", "/page/backups", "/page/health",
                         "/page/tokens", "/page/import", "/page/why?q=word", "/page/forget", "/page/forgotten"):  # fmt: skip
                opened.open(path)
                wide = opened.page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                assert wide <= 0, f"{path} is {wide} pixels too wide"
                opened.check_accessible()
            opened.open("/?tags=tide")
            expect(opened.page.get_by_text("tagged tide")).to_be_visible()
            expect(opened.page.get_by_label("Tags")).to_be_visible(visible="viewport" not in options)
            opened.page.get_by_role("link", name="Search", exact=True).click()
            expect(opened.page).to_have_url(re.compile("/$"))


def test_the_names_of_files_are_plain() -> None:
    from infinite_memory.transports.http.page.uploads import to_file_name

    for name, plain in (
        ("../../etc/passwd", "passwd"), ("a\\b\\c.csv", "c.csv"), (".hidden", "hidden"), ("", "upload"), ("a\0b\n.json", "a_b_.json"),
        ("x" * 300 + ".csv", "x" * 196 + ".csv"), ("Notizen März.md", "Notizen März.md"), ("..", "upload"),
    ):  # fmt: skip
        assert to_file_name(name) == plain, json.dumps(name)
