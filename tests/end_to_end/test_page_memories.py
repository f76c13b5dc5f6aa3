"""The page as a person uses it: look for a memory, read it, mend it, move it, forget it and bring it back."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser import Window, get_login, window
from tests.page_fixtures import browser, home, login, memory, page, person, store
from tests.processes import Client, Installation, need_parts

__all__ = ["browser", "home", "login", "memory", "page", "person", "store"]

Store = Callable[..., str]


def look_for(page: Page, words: str) -> None:
    """Type a question into the search."""
    page.get_by_role("searchbox").fill(words)


def test_results_come_while_a_question_is_typed_and_say_why(page: Page, person: Window, store: Store) -> None:
    store("The violin teacher is called Ada Quill", tags=["music"])
    store("The dentist moved to Harbour Street")
    look_for(page, "violin teacher")
    first = page.get_by_role("listitem").filter(has_text="Ada Quill")
    expect(first.locator("mark").first).to_have_text("violin")
    first.get_by_text("Why", exact=True).click()
    expect(first.get_by_text("Found because it is near in meaning, it has words of the question")).to_be_visible()
    first.get_by_text("Numbers", exact=True).click()
    cells = first.locator("tbody td").all_inner_texts()
    total = float(first.locator("caption").inner_text().split()[1].rstrip(":"))
    assert abs(sum(map(float, cells)) - total) < 0.004
    person.check_accessible()


def test_a_memory_is_mended_and_its_history_shows_what_changed(page: Page, person: Window, store: Store) -> None:
    store("The boiler is serviced in Octobre", tags=["house"])
    look_for(page, "boiler")
    page.get_by_role("link", name="boiler").click()
    person.check_accessible()
    page.get_by_role("link", name="Edit").click()
    person.check_accessible()
    page.get_by_label("Text").fill("The boiler is serviced in October")
    page.get_by_label("Tags").fill("house, heating")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.locator("del")).to_have_text("Octobre")
    expect(page.locator("ins")).to_have_text("October")
    expect(page.get_by_text("tags: house → house, heating")).to_be_visible()
    text = page.locator(".text.whole")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("It says again what it said before.")).to_be_visible()
    expect(text).to_have_text("The boiler is serviced in Octobre")
    page.get_by_role("button", name="Bring back this version: 2").click()
    expect(page.get_by_text("It says what version 2 said.")).to_be_visible()
    expect(text).to_have_text("The boiler is serviced in October")
    expect(page.get_by_text("tags: house → house, heating").first).to_be_visible()
    person.check_accessible()
    page.get_by_role("link", name="Back to the results").click()
    expect(page.get_by_role("searchbox")).to_have_value("boiler")


def test_a_long_history_is_read_page_by_page(page: Page, person: Window, store: Store, memory: Client) -> None:
    memory_id = store("the tide table, version 1")
    for number in range(2, 105):
        memory.ask("update_memory", memory_id=memory_id, content=f"the tide table, version {number}")
    look_for(page, "tide table")
    page.get_by_role("link", name="tide table").first.click()
    versions = page.locator(".history > li")
    expect(versions).to_have_count(101)
    page.get_by_role("link", name="3 older versions").click()
    expect(versions).to_have_count(3)
    expect(versions.last).to_contain_text("the tide table, version 1")
    person.check_accessible()


def test_what_a_browser_writes_otherwise_is_no_change(page: Page, person: Window, store: Store, memory: Client) -> None:
    """A form ends lines its own way, trims, and lists tags between commas; what nobody touched stays as it is."""
    memory_id = store(
        "\nferry\r\ntimetable\rof winter", tags=["red, green"], metadata={"title": " Ferry ", "speaker": "Al\nb"}
    )
    before = memory.ask("get_memory", memory_id=memory_id)["memory"]
    look_for(page, "ferry timetable")
    page.get_by_role("link", name="ferry").first.click()
    page.get_by_role("link", name="Edit").click()
    page.locator("summary", has_text="More").click()
    page.get_by_label("Importance").fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    after = memory.ask("get_memory", memory_id=memory_id)["memory"]
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed <= {"importance", "revision", "updated_at", "last_used_at", "use_count"}, changed
    assert after["importance"] == 7


def test_what_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(
    page: Page, person: Window, store: Store
) -> None:
    memory_id = store("The bicycle has a blue bell")
    person.open(f"/page/memories/{memory_id}/edit")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Text").fill("The bicycle has a red bell")
    page.get_by_label("Importance").fill("eleven")
    page.get_by_role("button", name="Save").click()
    wrong = page.get_by_label("Importance")
    expect(wrong).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#importance-fault")).to_contain_text("number")
    expect(wrong).to_be_focused()
    expect(page.get_by_label("Text")).to_have_value("The bicycle has a red bell")
    person.check_accessible()
    wrong.fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()


def test_a_change_by_somebody_else_is_not_overwritten_unseen(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    memory_id = store("The key is under the mat")
    person.open(f"/page/memories/{memory_id}/edit")
    memory.ask("update_memory", memory_id=memory_id, content="The key is in the drawer")
    page.get_by_label("Text").fill("The key is under the mat.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#content-fault")).to_contain_text("The key is in the drawer")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()


def test_a_memory_moves_to_another_scope_with_its_history_and_back(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    there = store("the pear tree  is pruned in winter", scope="Garden")
    memory_id = store("The pear tree is pruned in spring", tags=["pear"], metadata={"importance": 3, "colour": "green"})
    memory.ask("update_memory", memory_id=memory_id, content="The pear tree is pruned in winter")
    person.open(f"/page/memories/{memory_id}")
    page.get_by_role("link", name="Move").click()
    person.check_accessible()
    page.get_by_label("Into the scope").select_option("Garden")
    page.get_by_role("button", name="Move").click()
    expect(page.get_by_text("Moved to Garden. Garden has the same text already; see Duplicates.")).to_be_visible()
    expect(page.get_by_text("scope: Global → Garden")).to_be_visible()
    expect(page.get_by_role("button", name="Bring back this version")).to_have_count(1)  # not that before the move
    expect(page.locator("del")).to_have_text("spring")
    moved = memory.ask("list_memories", scope="Garden")["results"]
    assert {one["memory_id"] for one in moved} == {there, memory_id}
    assert [(one["importance"], one["metadata"]) for one in moved if one["memory_id"] == memory_id] == [
        (3, {"colour": "green"})
    ]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("It is in Global again.")).to_be_visible()
    assert memory.ask("get_memory", memory_id=memory_id)["memory"]["scope"] == "Global"
    memory.ask("delete_memory", target={"memory_id": there})  # other tests count what lies here


def test_what_is_shown_while_a_question_is_typed_is_no_use_of_a_memory(tmp_path: Path, browser: Browser) -> None:
    """Counts are written when the daemon goes; what was typed or shown again counts nothing, what was sent once counts once."""
    need_parts()
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}) as home:
        memory_id = home.call("store_memory", content="The sundial is by the pond")["memory_id"]
        url, code = get_login(home)
        with window(browser, url) as opened:
            page = opened.log_in(code)
            for is_sent in (False, True):
                opened.open("/")
                look_for(page, "where is the sundial")
                expect(page.locator("#results mark").first).to_be_visible()
                home.call("store_memory", content=f"Something else {is_sent}")  # shows the results again
                if is_sent:
                    with page.expect_response(lambda reply: "sent=yes" in reply.url):
                        page.get_by_role("searchbox").press("Enter")
                else:
                    opened.open(f"/page/memories/{memory_id}")
                    expect(page.get_by_text("not yet")).to_be_visible()
        assert home.command("daemon", "stop").returncode == 0
        url, code = get_login(home)
        with window(browser, url) as opened:
            opened.log_in(code)
            page = opened.open(f"/page/memories/{memory_id}")
            expect(page.locator("dd", has_text="1 time").first).to_be_visible()


def test_a_forgotten_memory_is_brought_back_by_one_click(page: Page, person: Window, store: Store) -> None:
    memory_id = store("The lighthouse closes at six")
    person.open(f"/page/memories/{memory_id}")
    page.get_by_role("link", name="Forget").click()
    person.check_accessible()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_text("The memory is forgotten.")).to_be_visible()
    expect(page.get_by_text("The lighthouse closes at six")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back")).to_be_visible()
    expect(page.get_by_role("article").get_by_text("The lighthouse closes at six")).to_be_visible()


def test_what_was_forgotten_is_found_again_later_whoever_forgot_it(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    for text in ("The tide mill is closed", "The tide mill is sold"):
        memory.ask("delete_memory", target={"memory_id": store(text, scope="Mills")})
    page.get_by_role("link", name="Forgotten", exact=True).click()
    rows = page.get_by_role("listitem").filter(has_text="tide mill")
    expect(rows.locator(".text")).to_have_text(["The tide mill is sold", "The tide mill is closed"])
    person.check_accessible()
    rows.last.get_by_role("button", name="Bring back").click()
    expect(page.get_by_text("Brought back: 1 memory.")).to_be_visible()
    expect(page.locator(".text.whole")).to_have_text("The tide mill is closed")
    page.get_by_role("link", name="Health").click()
    page.get_by_role("link", name="forgotten that can be brought back").click()
    expect(rows).to_have_count(1)


def test_several_that_were_forgotten_are_brought_back_together(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    ids = [store(f"Rung {number} of the ladder is loose") for number in range(4)]
    for memory_id in ids:
        memory.ask("delete_memory", target={"memory_id": memory_id})
    person.open("/page/forgotten")
    page.get_by_role("button", name="Bring back what is ticked").click()
    expect(page.get_by_role("alert").filter(has_text="Nothing is ticked.")).to_have_text("Nothing is ticked.")
    page.get_by_role("checkbox", name="Rung 0 of the ladder").check()
    page.get_by_role("checkbox", name="Rung 2 of the ladder").check()
    page.get_by_role("button", name="Bring back what is ticked").click()
    expect(page.get_by_text("Brought back: 2 memories.")).to_be_visible()
    assert [memory.ask("get_memory", memory_id=one)["status"] for one in ids] == ["OK", "ERROR", "OK", "ERROR"]
    person.check_accessible()
    page.get_by_role("button", name="Bring back all").click()
    expect(page.get_by_text("Nothing that can be brought back.")).to_be_visible()
    assert memory.ask("get_memory", memory_id=ids[3])["status"] == "OK"


def test_a_tag_with_ten_memories_is_forgotten_after_a_preview_and_undone(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    for number in range(10):
        store(f"Errand number {number} of the old list", tags=["errands"])
    page.get_by_role("link", name="Forget by tag or words").click()
    expect(page.locator("#tag-offers option[value=errands]")).to_have_count(1)
    page.get_by_label("Tag").fill("errands")
    page.get_by_role("button", name="Show what would go").click()
    expect(page.get_by_role("heading", name="10 memories would go")).to_be_visible()
    person.check_accessible()
    assert memory.ask("search_by_tag", tag="errands")["total"] == 10
    page.get_by_role("button", name="Forget 10 memories").click()
    expect(page.get_by_text("10 memories are forgotten.")).to_be_visible()
    assert memory.ask("search_by_tag", tag="errands")["total"] == 0
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back")).to_be_visible()
    assert memory.ask("search_by_tag", tag="errands")["total"] == 10


def test_all_that_has_a_tag_of_hundreds_is_forgotten_at_once_and_undone(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    made = [{"content": f"Scrap number {number} of the drawer", "tags": ["scraps"]} for number in range(205)]
    for first in range(0, len(made), 100):
        assert memory.ask("store_memories", memories=made[first : first + 100])["failed"] == 0
    memory.ask("create_memory_scope", scope_name="Attic")
    store("One more scrap, in the attic", tags=["scraps"], scope="Attic")
    person.open("/page/forget?tag=scraps")
    expect(page.get_by_role("heading", name="206 memories would go")).to_be_visible()
    expect(page.locator("ul.memories > li")).to_have_count(200)
    expect(page.get_by_text("The first 200 are shown; all go.")).to_be_visible()
    store("A scrap that came meanwhile", tags=["scraps"])
    page.get_by_role("button", name="Forget 206 memories").click()
    expect(page.get_by_role("alert").filter(has_text="1 more memory would go since this was shown")).to_be_visible()
    assert memory.ask("search_by_tag", tag="scraps", scope="ALL")["total"] == 207
    page.get_by_role("button", name="Show what would go").click()
    page.get_by_role("button", name="Forget 207 memories").click()
    expect(page.get_by_text("207 memories are forgotten.")).to_be_visible()
    assert memory.ask("search_by_tag", tag="scraps", scope="ALL")["total"] == 0
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back: 207 memories.")).to_be_visible()
    assert memory.ask("search_by_tag", tag="scraps", scope="ALL")["total"] == 207


def test_undo_names_the_scope_that_was_archived_since(page: Page, person: Window, store: Store, memory: Client) -> None:
    for number in range(206):
        store(f"Pebble number {number}", scope="Pocket", tags=["pebbles"])
    person.open("/page/forget?tag=pebbles")
    page.get_by_role("button", name="Forget 206 memories").click()
    expect(page.get_by_text("206 memories are forgotten.")).to_be_visible()
    memory.ask("delete_memory", target={"scope": "Pocket"})
    page.get_by_role("button", name="Undo").click()
    told = page.get_by_text("Brought back: 206 memories. The scope Pocket is archived")
    expect(told).to_contain_text("seen once you bring it back here")
    page.get_by_role("button", name="Bring back Pocket").click()
    expect(page.get_by_text("Pocket is back.")).to_be_visible()
    assert memory.ask("search_by_tag", tag="pebbles", scope="ALL")["total"] == 206

    one = memory.ask("search_by_tag", tag="pebbles", scope="ALL")["results"][0]["memory_id"]
    person.open(f"/page/memories/{one}/forget")
    page.get_by_role("button", name="Forget").click()
    memory.ask("delete_memory", target={"scope": "Pocket"})
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back: 1 memory. The scope Pocket is archived")).to_be_visible()
    memory.ask("restore_memory", scope="Pocket")
    assert memory.ask("search_by_tag", tag="pebbles", scope="ALL")["total"] == 206


def test_a_tag_that_no_memory_has_is_said(page: Page, person: Window, store: Store) -> None:
    store("The kettle whistles", tags=["kettles"])
    person.open("/page/forget?tag=ketles")
    expect(page.get_by_text("no memory has the tag 'ketles' (did you mean 'kettles'")).to_be_visible()


def test_removing_for_good_wants_to_be_sure(page: Page, person: Window, store: Store, memory: Client) -> None:
    memory_id = store("The password of the shed is swordfish")
    person.open(f"/page/memories/{memory_id}/forget")
    page.get_by_label("Remove it for good").check()
    page.get_by_role("button", name="Forget").click()
    expect(page.locator("#sure-fault")).to_contain_text("cannot be brought back")
    assert memory.ask("get_memory", memory_id=memory_id)["status"] == "OK"
    page.get_by_label("I know").check()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_text("The memory was removed for good.")).to_be_visible()
    assert memory.ask("restore_memory", memory_id=memory_id)["error_code"] == "NOT_FOUND"


def test_a_memory_of_last_march_is_found_by_words_of_time(page: Page, person: Window, store: Store) -> None:
    store("We planted the walnut", metadata={"timestamp": "2025-03-14T10:00:00Z"})
    store("We harvested the walnut", metadata={"timestamp": "2025-10-02T10:00:00Z"})
    store("We watered the walnut", metadata={"timestamp": "2025-03-15"})  # a day alone
    page.get_by_text("Filter", exact=True).click()
    page.get_by_label("Time in words").fill("march 2025")
    results = page.locator("#results")
    expect(results.get_by_text("“march 2025” read as Sat 1 Mar 2025 to Mon 31 Mar 2025")).to_be_visible()
    expect(results.get_by_text("We planted the walnut")).to_be_visible()
    expect(results.get_by_text("We harvested the walnut")).to_have_count(0)
    expect(results.get_by_role("article").filter(has_text="watered").locator("time")).to_have_text(
        re.compile("Mar 2025$")
    )
    page.get_by_label("Time in words").fill("2025-03-14")
    expect(results.get_by_text("We planted the walnut")).to_be_visible()
    year = dt.datetime.now(dt.UTC).year
    store("We pruned the walnut", metadata={"timestamp": f"{year - 2}-03-20T10:00:00Z"})
    page.get_by_label("Tags").fill("walnuts")
    store("We grafted the walnut", tags=["walnuts"], metadata={"timestamp": f"{year - 2}-03-21T10:00:00Z"})
    page.get_by_label("Time in words").fill("last march")
    results.get_by_role("link", name=f"March {year - 2} has 1").click()
    expect(results.get_by_text("We grafted the walnut")).to_be_visible()
    page.get_by_label("Time in words").fill("no time at all")
    expect(results.get_by_text("there is no time in")).to_be_visible()


TYPE_AT_ONCE = """() => new MutationObserver((changes, observer) => {
    observer.disconnect();
    const field = document.getElementById("time");
    field.focus();
    field.value = "no time at all";
    field.dispatchEvent(new Event("input", { bubbles: true }));
}).observe(document.body, { childList: true })"""


def test_what_is_typed_as_soon_as_a_view_is_there_is_asked_for(page: Page, person: Window, store: Store) -> None:
    store("The kayak has a red hull", tags=["lake"])
    results = page.locator("#results")
    person.open("/")
    page.evaluate(TYPE_AT_ONCE)
    results.get_by_role("link", name="lake").first.click()
    expect(results.get_by_text("there is no time in")).to_be_visible()
    expect(page.get_by_label("Time in words")).to_be_focused()


def test_what_is_typed_before_the_scripts_are_loaded_is_asked_for(page: Page, person: Window, store: Store) -> None:
    store("The rowan has red berries")
    late_script = "**/htmx.min.js*"
    page.route(late_script, lambda route: (page.wait_for_timeout(1000), route.continue_()))
    page.goto(person.url, wait_until="commit")
    page.get_by_label("What do you look for?").fill("rowan")
    expect(page.locator("#results").get_by_role("meter").first).to_be_visible()  # only a question has confidences
    page.unroute(late_script)


def test_why_tells_what_kept_a_memory_out(page: Page, person: Window, store: Store) -> None:
    memory_id = store("The ferry leaves at noon", tags=["travel"])
    person.open(f"/page/why?q=ferry&id={memory_id}&tags=kitchen")
    expect(page.get_by_text("the filter leaves it out: tags")).to_be_visible()
    person.check_accessible()
    page.get_by_label("Or its id").fill("")
    page.get_by_label("What the memory says").fill("ferry at noon")
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("link", name="The ferry leaves at noon").click()
    expect(page.get_by_text("the filter leaves it out: tags")).to_be_visible()


def test_hostile_texts_are_shown_as_text(page: Page, person: Window, store: Store) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'{{ 7*7 }}${7*7} \u202eevil"
    memory_id = store(
        hostile, tags=["<b>tag</b>"], metadata={"title": "<svg onload=alert(3)>", "<i>k": "</dd><script>"}
    )
    shown: list[str] = []
    page.on("dialog", lambda dialog: (shown.append(dialog.message), dialog.dismiss()))
    look_for(page, "onerror alert")
    expect(page.locator("#results")).to_contain_text("<img src=x onerror=alert(1)>")
    person.open(f"/page/memories/{memory_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("<svg onload=alert(3)>")
    expect(page.locator(".text.whole")).to_contain_text("{{ 7*7 }}${7*7}")
    for view in ("edit", "move", "forget"):
        person.open(f"/page/memories/{memory_id}/{view}")
    expect(page.locator("blockquote")).to_have_text(hostile)
    assert page.locator("img, svg, script:not([src])").count() == 0
    assert shown == []


def test_everything_works_by_keyboard_alone(page: Page, person: Window, store: Store) -> None:
    store("The keyboard memory is reached without a mouse")
    person.open("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("keyboard memory mouse")
    expect(page.locator("#results mark").first).to_be_visible()
    link = page.get_by_role("link", name="keyboard memory")
    for _ in range(12):
        page.keyboard.press("Tab")
        if link.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/page/memories/"))
    expect(page.locator("#main")).to_be_focused()
