"""The digest of a session: its own sentences, the same each time, in the languages of the text analysis."""

from __future__ import annotations

import datetime as dt

import pytest

from infinite_memory.hooks.digest import MAX_ABOUT, Digest, Said, make_digest, split_sentences
from infinite_memory.hooks.transcript import ASSISTANT, USER

START = dt.datetime(2026, 11, 28, 12, 0, tzinfo=dt.UTC)

TALKS = {
    "en": (
        "Which database should the shop use? It must run in Frankfurt.",
        "PostgreSQL 16 would fit the shop.\n- It runs in Frankfurt\nI changed `src/shop/db.py` and config/app.toml.",
        "Good, we will use PostgreSQL 16 for the shop. And the cache?",
        "Redis is not yet set up for the cache. Should I add it to docker-compose.yml?",
    ),
    "de": (
        "Welche Datenbank soll der Laden benutzen?",
        "PostgreSQL passt gut zum Laden, die Sicherung macht pgbackrest.",
        "Gut, wir nehmen PostgreSQL für den Laden.",
        "Erledigt. Der Zwischenspeicher ist noch nicht eingerichtet.",
    ),
    "fr": (
        "Quelle base de données pour la boutique en ligne ?",
        "PostgreSQL convient bien à la boutique en ligne.",
        "Bon, nous utilisons PostgreSQL pour la boutique.",
        "Fait. Le cache de la boutique n'est pas encore configuré.",
    ),
    "es": (
        "¿Qué base de datos debe usar la tienda?",
        "PostgreSQL encaja bien con la tienda en línea.",
        "Bien, vamos a usar PostgreSQL para la tienda.",
        "Hecho. La caché de la tienda todavía no está lista.",
    ),
    "pt": (
        "Que base de dados deve a loja usar?",
        "PostgreSQL serve bem para a loja na rede.",
        "Bom, vamos usar PostgreSQL para a loja.",
        "Feito. O cache da loja ainda não está pronto.",
    ),
    "zh": (
        "商店应该使用哪个数据库？",
        "PostgreSQL 16 适合商店。备份用 pgbackrest。",
        "好的，我们决定使用 PostgreSQL 16。",
        "缓存尚未设置。",
    ),
    "ja": (
        "店のデータベースは何を使うべきですか？",
        "PostgreSQL が店に合います。",
        "では、店には PostgreSQL を使うことにします。",
        "キャッシュはまだ設定していません。",
    ),
}


def said(*texts: str) -> list[Said]:
    """Make turns of the user and the assistant by turns."""
    return [
        Said(f"m{number}", (USER, ASSISTANT)[number % 2], text, START + dt.timedelta(seconds=number))
        for number, text in enumerate(texts)
    ]


def digest_of(*texts: str) -> Digest:
    digest = make_digest(said(*texts))
    assert digest is not None
    return digest


def lines_of(digest: Digest, label: str) -> list[str]:
    return [line.removeprefix(f"{label}: ") for line in digest.text.split("\n") if line.startswith(f"{label}: ")]


def test_a_session_becomes_topics_decisions_open_matters_and_files() -> None:
    digest = digest_of(*TALKS["en"])
    assert lines_of(digest, "About")[0] == "Which database should the shop use?"
    assert lines_of(digest, "Decided") == ["Good, we will use PostgreSQL 16 for the shop."]
    assert lines_of(digest, "Open") == [
        "Redis is not yet set up for the cache.",
        "Should I add it to docker-compose.yml?",
    ]
    assert lines_of(digest, "Files") == ["config/app.toml, docker-compose.yml, src/shop/db.py"]
    assert digest.sources == ("m0", "m1", "m2", "m3")


@pytest.mark.parametrize("language", sorted(TALKS))
def test_decisions_and_open_matters_are_found_in_each_language(language: str) -> None:
    texts = TALKS[language]
    digest = digest_of(*texts)
    assert lines_of(digest, "About")
    assert len(lines_of(digest, "Decided")) == 1
    assert lines_of(digest, "Decided")[0] in texts[2]
    assert lines_of(digest, "Open")[0] in texts[3]


@pytest.mark.parametrize("language", sorted(TALKS))
def test_every_sentence_is_one_of_the_sessions_own_and_the_digest_is_always_the_same(language: str) -> None:
    texts = TALKS[language]
    digest = digest_of(*texts)
    for line in digest.text.split("\n"):
        label, _, sentence = line.partition(": ")
        if label != "Files":
            assert any(sentence in text.replace("**", "") for text in texts), sentence
    assert all(digest_of(*texts) == digest for _ in range(3))


def test_a_question_that_was_answered_is_not_open_and_none_is_a_decision() -> None:
    digest = digest_of(
        "Have we decided on a database for it?", "Yes, that is the PostgreSQL one.", "Thanks for that, all clear now."
    )
    assert lines_of(digest, "Open") == []
    assert lines_of(digest, "Decided") == []


def test_a_long_question_is_one_though_its_end_is_not_shown() -> None:
    long = "Should we go with PostgreSQL for the shop, " + "which would have to run beside the other servers, " * 6
    digest = digest_of("The shop wants a database of some kind.", "The shop has one server now.", f"{long}or not?")
    assert lines_of(digest, "Decided") == []
    assert [line.startswith("Should we go with") for line in lines_of(digest, "Open")] == [True]


def test_a_semicolon_asks_nothing() -> None:
    digest = digest_of(
        "We decided to use PostgreSQL for the shop;", "The shop calls parse_widget(data, options, flags);"
    )
    assert lines_of(digest, "Open") == []
    assert lines_of(digest, "Decided") == ["We decided to use PostgreSQL for the shop;"]


def test_code_tables_and_addresses_are_no_sentences_and_no_files() -> None:
    assert split_sentences(
        "```py\nwe decided on nothing at all here\n```\n| a | b |\n---\n# The heading of it\nOne. Two!"
    ) == [
        "The heading of it",
        "One.",
        "Two!",
    ]
    digest = digest_of(
        "Read https://example.org/a/b/page.html and tell me about it", "The page tells about tea in src/tea.py only."
    )
    assert lines_of(digest, "Files") == ["src/tea.py"]


def test_the_last_decisions_are_kept_and_each_once() -> None:
    texts = [f"We decided on plan number {number} today." for number in range(9)]
    digest = digest_of(*texts, texts[-1])
    assert lines_of(digest, "Decided") == texts[5:]
    assert len(lines_of(digest, "About")) <= MAX_ABOUT


@pytest.mark.parametrize("texts", [(), ("Only one turn was said here.",), ("Hi", "Hello"), ("!!!", "???", "...")])
def test_too_little_makes_no_digest(texts: tuple[str, ...]) -> None:
    assert make_digest(said(*texts)) is None


def test_a_very_long_log_is_looked_at_in_part() -> None:
    digest = digest_of("Why does the build of the shop fail?", "The build fails for this reason: " + "x" * 5_000_000)
    assert len(digest.text) < 2_000
