"""The page as whoever looks after a memory uses it: scopes, backups and jobs, health, tokens."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
from playwright.sync_api import Page, expect

from tests.browser import Window
from tests.page_fixtures import browser, home, login, memory, page, person, store
from tests.processes import Client, Installation

__all__ = ["browser", "home", "login", "memory", "page", "person", "store"]

Store = Callable[..., str]


def scopes(memory: Client) -> dict[str, int]:
    """Count the memories of each scope that is not archived."""
    counts: dict[str, int] = memory.ask("get_memory_stats")["stats"]["scopes"]
    return counts


def test_a_scope_is_made_renamed_and_described(page: Page, person: Window, memory: Client) -> None:
    person.open("/page/scopes")
    person.check_accessible()
    page.get_by_label("Name", exact=True).fill("Alotment")
    page.get_by_label("What it is for").fill("beds and seeds")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("The scope Alotment is there.")).to_be_visible()
    page.get_by_role("link", name="Change Alotment").click()
    person.check_accessible()
    page.get_by_label("Name", exact=True).fill("Allotment")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The scope is called Allotment.")).to_be_visible()
    assert "Allotment" in scopes(memory)
    page.get_by_label("Name", exact=True).fill("allotment")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert").filter(has_text="allotment")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("allotment")


def test_two_scopes_are_merged_after_a_look(page: Page, person: Window, store: Store, memory: Client) -> None:
    for number in range(3):
        store(f"Cello lesson {number}", scope="Cello")
    store("Scales first", scope="Music")
    person.open("/page/scope?name=Cello")
    page.get_by_label("Into", exact=True).select_option("Music")
    page.get_by_role("button", name="Show what would move").click()
    expect(page.get_by_text("3 memories would move into Music")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Cello lesson")).to_have_count(3)
    assert scopes(memory)["Cello"] == 3
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_text("3 memories moved from Cello into Music.")).to_be_visible()
    assert (scopes(memory).get("Cello"), scopes(memory)["Music"]) == (None, 4)


def test_the_undo_of_an_archived_scope_brings_back_nothing_that_was_forgotten_since(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    forgotten, _ = store("The door code is 1234", scope="House"), store("The door is green", scope="House")
    person.open("/page/scope?name=House")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("House is archived.")).to_be_visible()
    memory.ask("restore_memory", scope="House")  # by somebody else, while this window stays as it is
    memory.ask("delete_memory", target={"memory_id": forgotten})
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("the scope 'House' is not archived any more")).to_be_visible()
    assert scopes(memory)["House"] == 1


def test_a_scope_is_archived_brought_back_and_deleted_by_its_name(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    store("An old job", scope="Former work")
    person.open("/page/scope?name=Former work")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Former work is archived.")).to_be_visible()
    assert "Former work" not in scopes(memory)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("The scope Former work is back.")).to_be_visible()
    assert scopes(memory)["Former work"] == 1
    page.get_by_role("link", name="Change Former work").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page.locator("#typed-fault")).to_contain_text("type the scope's name")
    assert scopes(memory)["Former work"] == 1
    page.get_by_label("Type the name of the scope").fill("Former work")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("Former work and 1 memory are removed for good.")).to_be_visible()
    assert "Former work" not in scopes(memory)


def test_what_was_in_global_is_brought_back_whole_and_nothing_else(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    before = store("forgotten before")
    memory.ask("delete_memory", target={"memory_id": before})
    there = scopes(memory).get("Global", 0)
    store("one of all")
    person.open("/page/scope?name=Global")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("What was in Global is forgotten.")).to_be_visible()
    assert scopes(memory).get("Global", 0) == 0
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Brought back: what was in Global")).to_be_visible()
    assert scopes(memory)["Global"] == there + 1
    assert memory.ask("get_memory", memory_id=before)["status"] == "ERROR"


def test_a_scope_that_got_the_name_or_more_memories_since_it_was_shown_is_not_removed(
    page: Page, person: Window, store: Store, memory: Client
) -> None:
    store("to throw away", scope="Junk")
    store("a precious entry", scope="Journal")
    for button in ("Archive", "Save", "Delete for good"):
        person.open("/page/scope?name=Junk")
        for name, new_name in (("Junk", "Junk 2"), ("Journal", "Junk")):
            memory.ask("change_memory_scope", scope=name, new_name=new_name)
        page.get_by_label("Type the name of the scope").fill("Junk")
        page.get_by_role("button", name=button).click()
        expect(
            page.get_by_role("alert").filter(has_text="another scope has that name since this was shown")
        ).to_be_visible()
        for name, new_name in (("Junk", "Journal"), ("Junk 2", "Junk")):
            memory.ask("change_memory_scope", scope=name, new_name=new_name)
    person.open("/page/scope?name=Junk")
    store("another entry", scope="Junk")
    page.get_by_label("Type the name of the scope").fill("Junk")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_role("alert").filter(has_text="1 more memory would go since this was shown")).to_be_visible()
    assert (scopes(memory)["Junk"], scopes(memory)["Journal"]) == (2, 1)


def test_a_backup_is_made_verified_and_restored(page: Page, person: Window, store: Store, memory: Client) -> None:
    memory_id = store("What a backup must bring back")
    person.open("/page/backups")
    person.check_accessible()
    page.get_by_role("button", name="Make a backup").click()
    expect(page.get_by_text("is written and read back")).to_be_visible()
    page.get_by_role("link", name="Back", exact=True).click()
    page.get_by_role("button", name="Verify").first.click()
    expect(page.get_by_text("is whole")).to_be_visible()
    person.check_accessible()
    memory.ask("delete_memory", target={"memory_id": memory_id}, forget_mode="hard")
    page.get_by_role("link", name="Back", exact=True).click()
    expect(page.get_by_text("whole, verified")).to_be_visible()
    page.get_by_role("link", name="Restore").first.click()
    expect(page.get_by_text("1 memory would be restored").first).to_be_visible()
    person.check_accessible()
    assert memory.ask("get_memory", memory_id=memory_id)["status"] == "ERROR"
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("1 memory restored")).to_be_visible()
    assert memory.ask("get_memory", memory_id=memory_id)["memory"]["text"] == "What a backup must bring back"


def test_replacing_everything_wants_to_be_sure(page: Page, person: Window) -> None:
    person.open("/page/backups")
    page.get_by_role("button", name="Make a backup").click()
    page.get_by_role("link", name="Back", exact=True).click()
    page.get_by_role("link", name="Restore").first.click()
    page.get_by_label("Put it in the place of everything").check()
    page.get_by_role("button", name="Restore").click()
    expect(page.locator("#sure-fault")).to_contain_text("everything that is here now is replaced")


def test_health_shows_checks_clients_and_settings_and_no_secret(
    page: Page, person: Window, home: Installation, memory: Client
) -> None:
    assistant = home.serve()
    about = {"name": "Clau<b>de", "version": "1.2"}
    assistant.rpc(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
    memory.ask("ping")
    assert home.status()["clients"] == ["Clau<b>de 1.2", "a program without a name"]
    person.open("/page/health")
    expect(page.locator("dd bdi").filter(has_text="Clau<b>de 1.2")).to_be_visible()
    assistant.close()
    person.check_accessible()
    expect(page.get_by_role("row").filter(has_text="http.port")).to_contain_text("environment")
    expect(page.get_by_text("all can be read")).to_be_visible()
    page.get_by_role("button", name="Rebuild the index").click()
    expect(page.get_by_text("The index holds")).to_be_visible()


def test_a_token_is_made_shown_once_and_revoked(page: Page, person: Window, home: Installation, store: Store) -> None:
    store("The rake is in the shed", scope="Shed")
    person.open("/page/tokens")
    person.check_accessible()
    page.get_by_label("What it is for").fill("garden robot")
    page.get_by_label("Only these scopes").select_option("Shed")
    page.get_by_label("It only reads").check()
    page.get_by_role("button", name="Make a token").click()
    token = page.locator("#secret").inner_text()
    row = page.get_by_role("row").filter(has_text="garden robot")
    expect(row).to_contain_text("only reads")
    person.open("/page/tokens")
    expect(page.locator("#secret")).to_have_count(0)
    assert token not in page.content()
    address, headers = f"{person.url}api/v1/memories", {"Authorization": f"Bearer {token}"}
    assert [one["content"] for one in httpx2.get(address, headers=headers).json()["memories"]] == [
        "The rake is in the shed"
    ]
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("The token is revoked.")).to_be_visible()
    assert httpx2.get(address, headers=headers).status_code == 401


def test_a_token_for_the_metrics_is_made_on_the_page(page: Page, person: Window, store: Store) -> None:
    store("The rake is in the shed", scope="Shed")
    person.open("/page/tokens")
    page.get_by_label("What it is for").fill("prometheus")
    page.get_by_label("It reads the metrics alone").check()
    page.get_by_label("Only these scopes").select_option("Shed")
    page.get_by_role("button", name="Make a token").click()
    expect(page.locator("#metrics_only-fault")).to_be_visible()
    page.get_by_label("Only these scopes").select_option([])
    page.get_by_role("button", name="Make a token").click()
    headers = {"Authorization": f"Bearer {page.locator('#secret').inner_text()}"}
    expect(page.get_by_role("row").filter(has_text="prometheus")).to_contain_text("the metrics alone")
    assert httpx2.get(f"{person.url}metrics", headers=headers).status_code == 200
    assert httpx2.get(f"{person.url}api/v1/memories", headers=headers).status_code == 403


def test_a_wrong_token_form_says_so_beside_the_field(page: Page, person: Window, store: Store) -> None:
    store("anything", scope="Shed")
    person.open("/page/tokens")
    page.get_by_label("What it is for").fill("phone")
    page.get_by_label("Until").fill("yesterday or so")
    page.get_by_role("button", name="Make a token").click()
    expect(page.locator("#expires-fault")).to_be_visible()
    expect(page.get_by_label("What it is for")).to_have_value("phone")


def test_the_owners_token_is_replaced_and_the_login_goes_on(page: Page, person: Window, home: Installation) -> None:
    file = home.home / "http.token"
    old = file.read_text()
    person.open("/page/tokens")
    page.get_by_role("button", name="Replace the owner's token").click()
    expect(page.get_by_text("The owner's token is replaced")).to_be_visible()
    assert file.read_text() != old
    person.open("/page/tokens")
    expect(page.get_by_role("heading", level=1, name="Tokens")).to_be_visible()
