"""Makes the test set of identifiers: 200 memories, each asked for by its letters, with and without one typing slip.

    python tests/data/recall/make_identifiers.py 11 > tests/data/recall/identifiers-11.json

The same seed gives the same set. Every kind of identifier comes with near neighbours (the next version, the next error code,
a path in the same folder), so that being nearly right is wrong. A slip never turns one identifier into another one.
Standard library only.
"""

from __future__ import annotations

import json
import random
import string
import sys
from collections.abc import Callable

WORDS = (
    "billing", "ledger", "harbor", "kepler", "falcon", "quartz", "nimbus", "orchid", "tundra", "vertex",
    "walnut", "zephyr", "cobalt", "dorado", "ember", "fjord", "granite", "hazel", "indigo", "juniper",
)  # fmt: skip
ENDINGS = ("py", "rs", "toml", "yaml", "log", "conf", "sql", "tsx", "go", "md")

LATIN = ("Zoë Ångström", "Łukasz Żeleński", "Siobhán Ní Dhónaill", "José Núñez", "Ivana Đurić", "Françoise Lefèvre", "Jürgen Groß",
         "Miloš Kovačević", "Ayşe Yıldız", "Nguyễn Thị Hạnh", "Björn Sjöström", "Rūta Šimkutė", "Andrés Ibáñez",
         "Ondřej Dvořák")  # fmt: skip
CYRILLIC = ("Дмитрий Соколов", "Наталья Белова", "Олександр Шевчук", "Марина Кузнецова", "Борис Захаров", "Светлана Орлова",
            "Георги Иванов", "Елизавета Громова", "Тарас Бондаренко", "Людмила Фролова", "Виктор Лебедев", "Оксана Ткаченко")  # fmt: skip
GREEK = ("Γιώργος Παπαδόπουλος", "Ελένη Νικολάου", "Δημήτρης Οικονόμου", "Κατερίνα Βασιλείου", "Νίκος Αντωνίου", "Σοφία Καραγιάννη",
         "Χρήστος Μακρής", "Ιωάννα Θεοδώρου", "Παναγιώτης Λάμπρου", "Μαρία Σταματίου")  # fmt: skip
ARABIC = ("محمد الحسيني", "فاطمة الزهراني", "خالد المنصوري", "ليلى الشريف", "يوسف القحطاني", "نورة العتيبي", "عمر البغدادي",
          "سلمى الخطيب", "طارق النجار", "هدى السعيد")  # fmt: skip
HAN = (
    "欧阳若琳",
    "司马文渊",
    "诸葛明轩",
    "慕容雪晴",
    "上官婉清",
    "皇甫承志",
    "夏侯思远",
    "令狐子墨",
    "东方晓月",
    "南宫浩然",
)
DEVANAGARI = ("अनिरुद्ध शर्मा", "प्रियंका वर्मा", "राजेश कुलकर्णी", "मीनाक्षी त्रिपाठी", "सुरेन्द्र चौहान", "कविता देशपांडे",
              "विवेक अग्रवाल",
              "शालिनी मिश्रा", "नरेन्द्र पाटिल", "गायत्री जोशी")  # fmt: skip
NAMES = {"latin": LATIN, "cyrillic": CYRILLIC, "greek": GREEK, "arabic": ARABIC, "han": HAN, "devanagari": DEVANAGARI}

FRAMES = {
    "error code": ("The nightly job stopped with {} after the upgrade.", "Support says {} goes away once the cache is cleared.",
                   "We saw {} twice this week on the second server."),
    "path": ("The setting that matters is in {} and nowhere else.", "Remember to look at {} before restarting.",
             "I moved the old file to {} on the laptop."),
    "version": ("We are staying on {} until the summer.", "The bug was introduced in {} and hits everybody.",
                "The customer still runs {} on two machines."),
    "commit": ("The change that broke the import was {} by mistake.", "Please revert {} before the demo.",
               "The release was cut from {} on Friday."),
    "name": ("{} will join the planning call on Monday.", "The invoice has to go to {} first.",
             "I met {} at the conference and we talked about boats."),
}  # fmt: skip


def error_code(rng: random.Random) -> str:
    """Give an error code in one of the forms that programs print."""
    number = rng.randrange(1000, 9999)
    return rng.choice((
        f"E{number}", f"ORA-{number:05d}", f"0x{rng.getrandbits(32):08X}", f"ERR_{rng.choice(WORDS).upper()}_{rng.choice(WORDS).upper()}",
        f"{rng.choice(WORDS).upper()[:4]}-{number}", f"TS{number}", f"SQLSTATE[{rng.randrange(10, 99)}P{rng.randrange(10, 99)}]",
    ))  # fmt: skip


def path(rng: random.Random) -> str:
    """Give the path or name of a file."""
    one, two, three, ending = rng.choice(WORDS), rng.choice(WORDS), rng.choice(WORDS), rng.choice(ENDINGS)
    return rng.choice((
        f"/etc/{one}/{two}-{three}.{ending}", f"src/{one}/{two}_{three}.{ending}", f"C:\\{one}\\{two}\\{three}.{ending}",
        f"~/.config/{one}/{two}.{three}.{ending}", f"{one}_{two}_{rng.randrange(10, 99)}.{ending}",
    ))  # fmt: skip


def version(rng: random.Random) -> str:
    """Give a version number, sometimes with the product's name."""
    number = f"{rng.randrange(0, 9)}.{rng.randrange(10, 60)}.{rng.randrange(10, 60)}"
    tail = rng.choice(
        ("", f"-rc{rng.randrange(1, 9)}", f"-beta.{rng.randrange(1, 9)}", f"+build{rng.randrange(100, 999)}")
    )
    return rng.choice(
        (
            f"v{number}{tail}",
            f"{number}{tail}",
            f"{rng.choice(WORDS)}-{number}{tail}",
            f"{rng.choice(WORDS)}@{number}{tail}",
        )
    )


def commit(rng: random.Random) -> str:
    """Give a commit hash, whole or short."""
    return f"{rng.getrandbits(160):040x}"[: rng.choice((8, 10, 12, 40))]


def slip(text: str, rng: random.Random) -> str:
    """Make one typing slip: a letter doubled, left out, replaced, or two exchanged; never the first letter, never a blank."""
    places = [at for at in range(1, len(text)) if text[at].isalnum()]
    while True:
        at, kind = rng.choice(places), rng.randrange(4)
        letter = text[at]
        if kind == 0:
            made = text[:at] + letter + text[at:]
        elif kind == 1:
            made = text[:at] + text[at + 1 :]
        elif kind == 2:
            pool = string.digits if letter.isdigit() else [one for one in set(text) if one.isalpha() and one != letter]
            made = text[:at] + rng.choice(sorted(pool) or ["x"]) + text[at + 1 :]
        else:
            made = text[: at - 1] + letter + text[at - 1] + text[at + 1 :]
        if made != text:
            return made


def make(seed: int) -> list[dict[str, str]]:
    """Make the set of one seed: text, kind, the identifier as a query, and the query with a slip."""
    rng = random.Random(seed)
    made: list[tuple[str, str]] = []
    makers: dict[str, Callable[[random.Random], str]] = {
        "error code": error_code,
        "path": path,
        "version": version,
        "commit": commit,
    }
    for kind, maker in makers.items():
        seen: set[str] = set()
        while len(seen) < 38:
            one = maker(rng)
            if one.casefold() not in {other.casefold() for other in seen}:
                seen.add(one)
                made.append((kind, one))
    for script, names in NAMES.items():
        made += [(f"name, {script}", one) for one in rng.sample(names, 8)]
    taken = {one for _, one in made}
    entries = []
    for kind, one in made:
        wrong = slip(one, rng)
        while wrong in taken:
            wrong = slip(one, rng)
        frame = rng.choice(FRAMES[kind.split(",")[0]])
        entries.append({"kind": kind, "text": frame.format(one), "query": one, "slip": wrong})
    rng.shuffle(entries)
    return entries


if __name__ == "__main__":
    json.dump(make(int(sys.argv[1])), sys.stdout, ensure_ascii=False, indent=0)
    print()
