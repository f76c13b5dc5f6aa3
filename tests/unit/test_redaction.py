"""Secrets leave texts, in whatever form they stand there; what may be shown of a URL stays."""

from __future__ import annotations

import time

import pytest

from infinite_memory import redaction
from infinite_memory.config import known_settings, load_config
from infinite_memory.errors import ConfigError
from infinite_memory.redaction import hide, redacted, remember


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("mongodb://ann:pw@db.example:27017/admin", "mongodb://***@db.example:27017/admin"),
        ("mongodb+srv://ann:p%40w@a.example,b.example:1/?x=1", "mongodb+srv://***@a.example,b.example:1/?***"),
        ("mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017"),
        ("mongodb://[::1]:27017/", "mongodb://[::1]:27017/"),
        ("http://token@127.0.0.1:11434/v1", "http://***@127.0.0.1:11434/v1"),
        ("http://127.0.0.1/v1?api_key=abcd", "http://127.0.0.1/v1?***"),
        ("mongodb://ann:p@w/x@host/", "***"),
        ("mongodb://host/?a=x@y", "mongodb://host/?***"),
        ("mongodb://ann:pw", "***"),
        ("hunter2", "***"),
        (["mongodb://a:b@c"], "***"),
    ],
)
def test_of_a_secret_only_hosts_are_shown(secret: object, shown: str) -> None:
    assert hide(secret) == shown


def test_a_remembered_secret_leaves_texts_whole_and_in_parts() -> None:
    remember("mongodb://ann:p%40ss%2Fword@db/?authMechanismProperties=AWS_SESSION_TOKEN:tok3n&appName=mine")
    for text in ("p%40ss%2Fword", "p@ss/word", "ann:p%40ss%2Fword", "AWS_SESSION_TOKEN:tok3n", "tok3n"):
        assert redacted(f"it said {text}!") == "it said ***!"
    assert redacted("mine at db") == "mine at db"


def test_a_password_in_any_url_leaves_texts_though_nobody_remembered_it() -> None:
    assert redacted("cannot open http://u:pw@proxy:3128/ now") == "cannot open http://***@proxy:3128/ now"
    assert redacted("write to ann@example.org or see http://example.org/@ann") == (
        "write to ann@example.org or see http://example.org/@ann"
    )


def test_what_is_not_secret_takes_no_words_along() -> None:
    remember("mongodb://localhost:27017")
    remember("mongodb://me:a@localhost")
    assert redacted("mongodb://localhost:27017 a me") == "mongodb://localhost:27017 a me"


SECRET = [name for name, known in known_settings().items() if known.secret]


def test_settings_that_may_hold_a_password_are_marked() -> None:
    assert {"mongodb.uri", "model.url"} <= set(SECRET)


@pytest.mark.parametrize("name", SECRET)
@pytest.mark.parametrize("value", ["nonsense S3cretPw", "mongodb://ann:S3cretPw@a@b", 12345678])
def test_an_error_about_a_secret_setting_does_not_quote_it(
    name: str, value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("home") / "config.toml"
    section, _, key = name.partition(".")
    file.write_text(f"[{section}]\n{key} = {value!r}\n")
    try:
        load_config(file, {})
    except ConfigError as exc:
        assert str(value) not in str(exc)
        assert "S3cretPw" not in str(exc)
        assert name in str(exc)


@pytest.mark.parametrize(
    "text", ["a" * 200_000 + " x://", "a" * 200_000 + "://x", "a://" * 50_000, "a://b" * 50_000, "://" * 50_000]
)
def test_a_long_text_costs_no_more_than_it_is_long(text: str) -> None:
    started = time.process_time()
    assert redacted(text) == text
    assert time.process_time() - started < 1
    assert redacted(f"{text} http://ann:pw@host") == f"{text} http://***@host"
