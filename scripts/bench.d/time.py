"""Score time phrases by language and kind, beside plain dateparser in the same run.

``python scripts/bench.d/time.py --cases FOLDER`` reads ``<language>.jsonl`` files of cases: ``text``, ``reference`` (local wall time
said at), ``from`` and ``to`` (the range it means, half open), ``kind``, and perhaps ``accept`` and ``disputed``. Disputed cases are
not scored. Without ``--cases`` the project's own table of phrases is scored.

The rules: both ends equal to a second; where the range reaches the present any end at or after it will do, or none; no start
equals any start before 1971; else both ends inside the ``accept`` box; for the kind ``none`` nothing may be found.

dateparser gives a moment: its day is taken, its hour where the text names a clock time; a sentence goes to its `search_dates`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from infinite_memory.time_expressions import find_time  # noqa: E402

UTC = ZoneInfo("UTC")
SECOND = dt.timedelta(seconds=1)
DAY = dt.timedelta(days=1)
Range = tuple[dt.datetime | None, dt.datetime | None]


@dataclass(frozen=True)
class Case:
    """One text, when it is said, and the range it means; *box* are the bounds of other right answers."""

    language: str
    kind: str
    text: str
    sentence: bool
    now: dt.datetime
    start: dt.datetime | None
    end: dt.datetime | None
    box: tuple[dt.datetime, dt.datetime, dt.datetime, dt.datetime] | None


def instant(written: str | None) -> dt.datetime | None:
    """Read wall time as if in UTC: the cases have no zone."""
    return dt.datetime.fromisoformat(written).replace(tzinfo=UTC) if written else None


def read_cases(folder: Path) -> Iterator[Case]:
    """Read the cases of a folder, file by file, without the disputed ones."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            now = instant(fields["reference"])
            if fields.get("disputed") or now is None:
                continue
            accept = fields.get("accept")
            bounds = [instant(bound) for end in ("from", "to") for bound in accept[end]] if accept else []
            box = tuple(bound for bound in bounds if bound)
            start, end = instant(fields["from"]), instant(fields["to"])
            yield Case(
                fields["language"],
                fields["kind"],
                fields["text"],
                fields.get("form") == "sentence",
                now,
                start,
                end,
                (box[0], box[1], box[2], box[3]) if len(box) == 4 else None,
            )


def own_cases() -> Iterator[Case]:
    """Read the project's own table; its sections stand in for kinds."""
    table = json.loads((ROOT / "tests" / "data" / "time" / "phrases.json").read_text(encoding="utf-8"))
    for section in table["sections"]:
        now = instant(section["now"][:16])
        if now is None or "+" in section["now"]:
            continue
        for text, start, end in section["cases"]:
            yield Case("own", section["title"], text, False, now, instant(start), instant(end), None)
    for text in table["none"]:
        yield Case("own", "none", text, False, dt.datetime(2026, 11, 25, 15, 20, tzinfo=UTC), None, None, None)


def is_right(case: Case, answer: Range | None) -> bool:
    """Apply the scoring rules to one answer; None means that no time was found."""
    if case.kind == "none" or answer is None:
        return case.kind == "none" and answer is None
    start, end = answer
    start_right = start is None or start.year <= 1970
    if case.start is not None:
        start_right = start is not None and abs(start - case.start) <= SECOND
    if case.end is None or case.end >= case.now:
        end_right = end is None or end >= case.now
    else:
        end_right = end is not None and abs(end - case.end) <= SECOND
    if start_right and end_right:
        return True
    if case.box is None or start is None or end is None:
        return False
    return case.box[0] <= start <= case.box[1] and case.box[2] <= end <= case.box[3]


def with_grammar(case: Case, *, language: str | None = None) -> Range | None:
    """Ask `find_time`, which finds the language out unless it is told."""
    found = find_time(case.text, case.now, UTC, language)
    return (found.span.start, found.span.end) if found else None


def with_dateparser(case: Case) -> Range | None:
    """Ask dateparser, told the language; its moment becomes a day, or an hour where the kind is a clock time."""
    import dateparser
    from dateparser.search import search_dates

    settings = {"RELATIVE_BASE": case.now.replace(tzinfo=None), "PREFER_DATES_FROM": "past"}
    moment: dt.datetime | None
    languages = None if case.language == "own" else [case.language]
    if case.sentence or case.kind == "none":
        found = search_dates(case.text, languages=languages, settings=settings)
        moment = found[0][1] if found else None
    else:
        moment = dateparser.parse(case.text, languages=languages, settings=settings)
    if moment is None:
        return None
    start = moment.replace(tzinfo=UTC)
    if case.kind.startswith("clock"):
        return start, start + dt.timedelta(hours=1)
    start = start.replace(hour=0, minute=0, second=0, microsecond=0)
    return start, start + DAY


def score(
    cases: list[Case], answer: Callable[[Case], Range | None]
) -> tuple[Counter[tuple[str, str]], list[Case], float]:
    """Count right answers by language and kind; also what was missed and the median CPU milliseconds of a phrase."""
    right: Counter[tuple[str, str]] = Counter()
    missed: list[Case] = []
    spent: list[float] = []
    for case in cases:
        begun = time.process_time()
        given = answer(case)
        spent.append((time.process_time() - begun) * 1000)
        if is_right(case, given):
            right[case.language, case.kind] += 1
        else:
            missed.append(case)
    return right, missed, statistics.median(spent)


def percent(part: int, whole: int) -> str:
    """Write a share as a percentage."""
    return f"{100 * part / whole:5.1f} %" if whole else "      -"


def print_table(cases: list[Case], ours: Counter[tuple[str, str]], theirs: Counter[tuple[str, str]]) -> None:
    """Print one row for each language and kind, and one for each language as a whole."""
    totals = Counter((case.language, case.kind) for case in cases)
    print(f"{'language':9} {'kind':28} {'cases':>5} {'ours':>8} {'dateparser':>11}")
    for language in sorted({case.language for case in cases}):
        kinds = sorted(kind for other, kind in totals if other == language)
        for kind in kinds:
            key = language, kind
            print(
                f"{language:9} {kind:28.28} {totals[key]:5} {percent(ours[key], totals[key]):>8} "
                f"{percent(theirs[key], totals[key]):>11}"
            )
        whole = sum(totals[language, kind] for kind in kinds)
        sums = [sum(counts[language, kind] for kind in kinds) for counts in (ours, theirs)]
        print(f"{language:9} {'ALL':28} {whole:5} {percent(sums[0], whole):>8} {percent(sums[1], whole):>11}\n")


def main() -> int:
    """Score and print."""
    parser = argparse.ArgumentParser(description="Score time phrases by language and kind, beside plain dateparser.")
    parser.add_argument("--cases", type=Path, help="folder of <language>.jsonl files; default: the project's own table")
    parser.add_argument("--told", action="store_true", help="tell our grammar the language too, as dateparser is told")
    parser.add_argument("--misses", action="store_true", help="list what our grammar got wrong")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = list(read_cases(arguments.cases)) if arguments.cases else list(own_cases())
    if not cases:
        print(f"no cases in {arguments.cases}", file=sys.stderr)
        return 2

    def ours_of(case: Case) -> Range | None:
        return with_grammar(case, language=case.language if arguments.told and case.language != "own" else None)

    for case in cases[:1] + cases[-1:]:  # warm-up: tables are compiled when first used
        ours_of(case)
        with_dateparser(case)
    ours, missed, our_ms = score(cases, ours_of)
    theirs, _, their_ms = score(cases, with_dateparser)
    print_table(cases, ours, theirs)
    print(
        f"all: ours {percent(sum(ours.values()), len(cases))}, dateparser {percent(sum(theirs.values()), len(cases))}"
    )
    print(f"CPU for a phrase, median: ours {our_ms:.2f} ms, dateparser {their_ms:.2f} ms")
    if arguments.misses:
        for case in missed:
            print(f"missed {case.language} {case.kind}: {case.text!r} said at {case.now:%Y-%m-%d %H:%M}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
