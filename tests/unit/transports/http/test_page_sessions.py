"""Codes and sessions of the page: used once, for a while, by whoever holds them."""

from __future__ import annotations

import pytest

from infinite_memory.transports.http.page.sessions import CODE_S, IDLE_S, MAX_SESSIONS, MAX_UNDO, PageSessions, Undo


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_code_opens_once(clock: Clock) -> None:
    sessions = PageSessions(clock)
    code = sessions.make_code("token")
    assert sessions.take_code(code + "x") is None
    assert sessions.take_code(code) == "token"
    assert sessions.take_code(code) is None


def test_a_code_opens_nothing_after_its_time(clock: Clock) -> None:
    sessions = PageSessions(clock)
    code = sessions.make_code("token")
    clock.now += CODE_S
    assert sessions.take_code(code) is None


def test_a_session_ends_when_it_rests_or_is_closed(clock: Clock) -> None:
    sessions = PageSessions(clock)
    key, session = sessions.open("token")
    clock.now += IDLE_S - 1
    assert sessions.find(key) is session
    clock.now += IDLE_S - 1
    assert sessions.find(key) is session
    clock.now += IDLE_S + 1
    assert sessions.find(key) is None
    key, session = sessions.open("token")
    sessions.close(key)
    assert sessions.find(key) is None
    assert sessions.find("") is None


def test_of_too_many_sessions_the_one_that_rested_longest_goes(clock: Clock) -> None:
    sessions = PageSessions(clock)
    first, _ = sessions.open("token")
    clock.now += 1
    second, _ = sessions.open("token")
    clock.now += 1
    sessions.find(first)
    for _ in range(MAX_SESSIONS - 1):
        sessions.open("token")
    assert sessions.find(second) is None
    assert sessions.find(first) is not None


def test_logging_in_often_with_one_token_logs_nobody_else_out(clock: Clock) -> None:
    sessions = PageSessions(clock)
    owner, _ = sessions.open("owner")
    for _ in range(2 * MAX_SESSIONS):
        clock.now += 1
        newest, _ = sessions.open("bound")
    assert sessions.find(owner) is not None
    assert sessions.find(newest) is not None


def test_the_newest_offers_of_undoing_are_kept(clock: Clock) -> None:
    _, session = PageSessions(clock).open("token")
    for number in range(MAX_UNDO + 5):
        session.offer_undo(Undo(str(number)))
    assert [undo.text for undo in session.undo.values()] == [str(number) for number in range(5, MAX_UNDO + 5)]
    assert session.offered is not None
    assert session.undo[session.offered].text == str(MAX_UNDO + 4)


def test_a_diff_shows_what_went_and_what_came() -> None:
    from infinite_memory.transports.http.page.views.memory import diff

    assert diff("the red boat", "the blue boat") == [
        ("same", "the "),
        ("del", "red"),
        ("ins", "blue"),
        ("same", " boat"),
    ]
    assert diff("", "new") == [("ins", "new")]
    long = "line\n" * 5000
    assert diff(long, long + "last\n") == [("same", long), ("ins", "last\n")]


@pytest.mark.timeout(60)  # without a bound the first pair takes hours
@pytest.mark.parametrize(
    ("old", "new"), [("a " * 5000, "a b " * 2500), ("a\n" * 5000, "a\nb\n" * 2500), ("a", "b " * 200_000)]
)
def test_a_diff_of_a_hostile_text_takes_no_hours_and_loses_nothing(old: str, new: str) -> None:
    from infinite_memory.transports.http.page.views.memory import diff

    stretches = diff(old, new)
    assert "".join(text for kind, text in stretches if kind != "del") == new
    assert "".join(text for kind, text in stretches if kind != "ins") == old


def test_marked_words_and_passages_make_up_the_whole_text() -> None:
    from infinite_memory.transports.http.page.views.search import mark

    assert mark("The Violin teacher", "", ["violin"]) == [("The ", False), ("Violin", True), (" teacher", False)]
    assert mark("a violinist", "", ["violin"]) == [("a violinist", False)]
    assert mark("one two three", "two", []) == [("one ", False), ("two", True), (" three", False)]
    assert mark("(.*) costs $1", "", ["(.*)"]) == [("(.*)", True), (" costs $1", False)]
