"""Takes the pictures of docs/page.md: `scripts/screenshots [FOLDER]`; default docs/screenshots."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

from tests.browser import get_login, launched, window
from tests.processes import Client, Installation

ROOT = Path(__file__).resolve().parent.parent
TALK = ("Shall we repaint the kitchen?", "Only if it is yellow", "Yellow it is, in May")
MEMORIES = (
    ("Ada's violin teacher is called Ruth Quill", "Family", ["music", "ada"], "2026-03-14T10:00:00Z"),
    ("The boiler is serviced every October by Harbour Heating", "House", ["boiler"], "2026-10-02T08:30:00Z"),
    ("User prefers short answers with the result first", "Global", ["preferences"], "2026-01-20T09:00:00Z"),
    ("The release is cut on the last Thursday of each month", "Work", ["release"], "2026-09-24T15:00:00Z"),
    ("The passport of Ada runs out in June 2028", "Family", ["passport", "ada"], "2026-06-11T12:00:00Z"),
    ("Le médecin de famille s'appelle Dr Moreau", "Family", ["health"], "2026-02-03T12:00:00Z"),
    ("祖母の誕生日は四月三日です", "Family", ["birthday"], "2026-04-03T02:00:00Z"),
    ("The spare key is with the neighbour", "House", ["keys"], "2026-05-05T12:00:00Z"),
    ("The spare key is with the neighbour", "House", ["neighbour"], "2026-08-05T12:00:00Z"),
)
VIEWS = {"timeline": "/page/timeline?at=2026", "scopes": "/page/scopes",
         "forgotten": "/page/forgotten", "duplicates": "/page/duplicates", "backups": "/page/backups",
         "health": "/page/health", "tokens": "/page/tokens", "import": "/page/import",
         "why": "/page/why?q=who+teaches+Ada+the+violin&tags=music&id={memory_id}"}  # fmt: skip
PHONE = {"viewport": {"width": 390, "height": 760}}
DARK = {"color_scheme": "dark"}
QUESTION = "/?q=spare+key"
NOTES = """text,tags,date,speaker,scope
The tent has a hole beside the door,camping,2026-06-02,Sam,Travel
The ferry leaves at seven on weekdays,"ferry,travel",2026-06-03,Ada,Travel
Ladders are kept behind the shed,tools,,,House
The lease ends in May,home,28/03/2026,,House
"""


def fill(memory: Client) -> str:
    """Store what the pictures show; returns the id of a memory with a history and a conversation."""
    for text, scope, tags, timestamp in MEMORIES:
        memory.ask("store_memory", content=text, scope=scope, tags=tags, metadata={"timestamp": timestamp})
    ids = [
        memory.ask("store_memory", content=text, scope="House",
                   metadata={"timestamp": f"2026-04-18T18:0{minute}:00Z", "conversation_id": "kitchen", "speaker": "Sam"})["memory_id"]
        for minute, text in enumerate(TALK)
    ]  # fmt: skip
    memory.ask("update_memory", memory_id=ids[2], content="Yellow it is, in June", tags=["kitchen"])
    old = memory.ask("store_memory", content="The old phone number is 555 0147", scope="House", tags=["phone"])[
        "memory_id"
    ]
    memory.ask("delete_memory", target={"memory_id": old})
    memory.ask("backup_memory")
    return str(ids[2])


def take(page: Page, folder: Path, name: str) -> None:
    """Take one picture."""
    page.wait_for_load_state("load")
    page.screenshot(path=folder / f"{name}.png")


def main() -> int:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["CI"] = "true"  # without Chromium this fails, and skips nothing
    with (
        tempfile.TemporaryDirectory() as place,
        Installation(Path(place) / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}) as home,
        launched() as browser,
    ):
        memory_id = fill(home.serve())
        url, code = get_login(home)
        with window(browser, url, viewport={"width": 1100, "height": 760}) as opened:
            page = opened.log_in(code)
            state = opened.context.storage_state()
            page.get_by_role("searchbox").fill("who teaches Ada the violin")
            page.locator("#results mark").first.wait_for()
            page.locator("#results .why summary").first.click()
            page.locator("#results .why details summary").first.click()
            take(page, folder, "search")
            opened.open(f"/page/memories/{memory_id}")
            take(page, folder, "memory")
            for name, address in VIEWS.items():
                opened.open(address.format(memory_id=memory_id))
                if name == "duplicates":
                    page.get_by_role("button", name="Look").click()
                    page.get_by_role("radio").first.wait_for()
                if name == "import":
                    file = {"name": "notes.csv", "mimeType": "text/csv", "buffer": NOTES.encode()}
                    page.get_by_label("Or choose one").set_input_files(file)
                    page.get_by_text("would be added").wait_for()
                take(page, folder, name)
        for name, options, address in (
            ("dark", {"viewport": {"width": 1100, "height": 760}, **DARK}, QUESTION), ("phone", PHONE, f"/page/memories/{memory_id}"),
            ("phone-dark", {**PHONE, **DARK}, QUESTION),
        ):  # fmt: skip
            with window(browser, url, storage_state=state, **options) as opened:
                take(opened.open(address), folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
