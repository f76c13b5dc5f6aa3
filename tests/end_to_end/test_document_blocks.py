"""Every command, request, program and setting that the documents show: carried out in an empty home, a page at a time, and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doc_blocks import PATIENT, RUN, SHOWN_ONLY, Session, blocks, documents
from tests.processes import ROOT, Installation, need_parts, until

ELSEWHERE = {
    "docs/sdk.md": "test_sdk.py",
    "docs/guides/langgraph.md": "test_sdk.py",
    "docs/http.md": "test_http_api.py",
    "docs/http-routes.md": "test_http_api.py",
    "docs/extending.md": "test_new_field.py",
    **{f"docs/reference/requests-{name}.md": "test_reference_examples.py"
       for name in ("remembering", "recalling", "listing", "forgetting", "scopes", "backups", "upkeep")},
}  # fmt: skip
"""Pages whose blocks another test carries out, because they want more than an empty home."""

RUNNABLE = [
    page for page in documents() if any(block.language in RUN and block.not_run is None for block in blocks(page))
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in RUNNABLE if name_of(page) not in ELSEWHERE], ids=name_of)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    need_parts()
    shown = blocks(page)
    with Installation(tmp_path / "home", PATIENT) as home:
        session = Session(home)
        if "config.toml" not in page.read_text("utf-8"):  # such a page starts the daemon itself, after its settings
            until(lambda: home.call("health_check").get("healthy") is True, "model and index are ready")
        for block, after in zip(shown, [*shown[1:], None], strict=True):
            if block.language in RUN and block.not_run is None:
                follows = after is not None and after.language == "text" and block.language == "python"
                session.run(block, after if follows else None)
        session.finish()


@pytest.mark.parametrize("page", documents(), ids=name_of)
def test_every_block_of_a_page_is_of_a_language_that_says_what_it_is(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= RUN | SHOWN_ONLY


@pytest.mark.parametrize(("page", "file"), ELSEWHERE.items())
def test_what_is_tested_elsewhere_is_named_there(page: str, file: str) -> None:
    assert (ROOT / page).is_file()
    assert Path(page).stem.split("-")[0] in (Path(__file__).parent / file).read_text("utf-8")
