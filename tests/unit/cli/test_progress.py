"""Progress on standard error: lines where there is no terminal, a bar where there is one, nothing for what is quick."""

from __future__ import annotations

import io

from infinite_memory.cli.progress import Lines, show_progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_line_is_written_now_and_then_and_none_for_quick_work() -> None:
    now = [0.0]
    stream = io.StringIO()
    lines = Lines("backup", stream, lambda: now[0])
    for second in range(12):
        now[0] = float(second)
        lines(1000 * second, 20_000)
    assert stream.getvalue() == (
        "infinite-memory backup: 3,000 of 20,000 done\ninfinite-memory backup: 8,000 of 20,000 done\n"
    )


def test_an_unknown_total_is_not_told() -> None:
    now = [0.0]
    stream = io.StringIO()
    lines = Lines("import", stream, lambda: now[0])
    now[0] = 60.0
    lines(5, 0)
    assert stream.getvalue() == "infinite-memory import: 5 done\n"


def test_a_terminal_gets_a_bar_that_goes_when_it_is_done() -> None:
    stream = Terminal()
    with show_progress("restore", stream) as progress:
        progress(1, 4)
        progress(4, 4)
    assert "restore" in stream.getvalue()
    assert "4/4" in stream.getvalue()


def test_what_is_no_terminal_gets_no_bar() -> None:
    stream = io.StringIO()
    with show_progress("restore", stream) as progress:
        progress(4, 4)
    assert stream.getvalue() == ""
