"""Who waits for a server that answers nothing, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from infinite_memory.index.milvus.connection import Connection
from infinite_memory.index.milvus.silence import ANSWER_S, LOOK_EVERY_S, PATIENCE_S, SilenceWatch, SilentError
from tests.processes import until

NOTICED_S = PATIENCE_S + ANSWER_S
SLACK_S = 1.5  # of a machine that has other work too


class Server:
    """Answers while it is `there`; what it is asked waits meanwhile."""

    def __init__(self) -> None:
        self.there = threading.Event()
        self.there.set()
        self.calls = 0

    def work(self) -> str:
        self.calls += 1
        self.there.wait(60)
        return "done"

    def look(self) -> bool:
        return self.there.wait(ANSWER_S)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.there.set()


@pytest.fixture
def watch(server: Server) -> Iterator[SilenceWatch]:
    watch = SilenceWatch(server.look)
    yield watch
    watch.close()


def test_a_call_that_takes_long_is_waited_for_while_the_server_answers_others(watch: SilenceWatch) -> None:
    def work() -> str:
        time.sleep(NOTICED_S + 0.5)
        return "done"

    assert watch.wait_for(work) == "done"


def test_all_who_wait_for_a_silent_server_are_told_at_once_and_later_ones_without_a_call(
    watch: SilenceWatch, server: Server
) -> None:
    server.there.clear()
    told: list[float] = []
    began = time.monotonic()

    def ask() -> None:
        with pytest.raises(SilentError):
            watch.wait_for(server.work)
        told.append(time.monotonic() - began)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 5
    assert max(told) < NOTICED_S + SLACK_S
    asked = server.calls
    with pytest.raises(SilentError):
        watch.wait_for(server.work)
    assert server.calls == asked == 5


def test_a_server_that_is_back_is_found_by_itself(watch: SilenceWatch, server: Server) -> None:
    server.there.clear()
    with pytest.raises(SilentError):
        watch.wait_for(server.work)
    server.there.set()
    until(lambda: not watch.is_silent, "it is heard", 10 * LOOK_EVERY_S)
    assert watch.wait_for(server.work) == "done"
    server.there.clear()  # and noticed again
    with pytest.raises(SilentError):
        watch.wait_for(server.work)


def test_an_error_of_a_call_is_raised_where_it_was_asked_for(watch: SilenceWatch) -> None:
    def work() -> str:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        watch.wait_for(work)
    assert not watch.is_silent


def test_a_connection_that_was_closed_looks_for_no_server_any_more() -> None:
    connection = Connection("http://127.0.0.1:1", None, 1)
    connection.close()
    connection.close()
    assert not [one for one in threading.enumerate() if one.name == "silent index"]
