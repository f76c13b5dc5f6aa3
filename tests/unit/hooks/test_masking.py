"""Secrets are masked, whatever they stand beside, and what is none is left alone."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infinite_memory.hooks.capture import _draft
from infinite_memory.hooks.masking import mask
from infinite_memory.hooks.projects import Project
from infinite_memory.hooks.sessions import Reading
from infinite_memory.hooks.transcript import Turn
from tests.processes import LONG

HOSTILE_LENGTH = 2_000_000 if LONG else 500_000
LETTERS = string.ascii_letters + string.digits
KINDS: dict[str, Callable[[Callable[[str, int], str]], str]] = {
    "aws": lambda pick: "AKIA" + pick(string.ascii_uppercase + string.digits, 16),
    "anthropic": lambda pick: "sk-ant-api03-" + pick(LETTERS, 80),
    "openai": lambda pick: "sk-proj-" + pick(LETTERS, 48),
    "github": lambda pick: "ghp_" + pick(LETTERS, 36),
    "github fine": lambda pick: "github_pat_" + pick(LETTERS, 60),
    "gitlab": lambda pick: "glpat-" + pick(LETTERS, 20),
    "slack": lambda pick: "xoxb-" + pick(string.digits, 12) + "-" + pick(LETTERS, 24),
    "slack webhook": lambda pick: "https://hooks.slack.com/services/T" + pick(LETTERS, 8) + "/B" + pick(LETTERS, 30),
    "stripe": lambda pick: "sk_live_" + pick(LETTERS, 24),
    "google": lambda pick: "AIza" + pick(LETTERS, 35),
    "npm": lambda pick: "npm_" + pick(LETTERS, 36),
    "pypi": lambda pick: "pypi-AgEIcHlwaS5vcmc" + pick(LETTERS, 60),
    "hugging face": lambda pick: "hf_" + pick(string.ascii_letters, 34),
    "sendgrid": lambda pick: "SG." + pick(LETTERS, 22) + "." + pick(LETTERS, 43),
    "twilio": lambda pick: "SK" + pick("0123456789abcdef", 32),
    "telegram": lambda pick: pick("123456789", 9) + ":AA" + pick(LETTERS, 33),
    "jwt": lambda pick: "eyJ" + pick(LETTERS, 30) + ".eyJ" + pick(LETTERS, 60) + "." + pick(LETTERS, 43),
    "private key": lambda pick: f"-----BEGIN RSA PRIVATE KEY-----\n{pick(LETTERS, 64)}\n-----END RSA PRIVATE KEY-----",
    "password": lambda pick: pick(LETTERS, 9) + "!7a",
    "card": lambda pick: card("4" + pick(string.digits, 14)),
}
FRAMES = {
    "password": ("DB_PASSWORD={}", 'password: "{}"', "the password is {} for now", '"api_key": "{}"', "--token={}"),
    "card": ("pay with {}.", "card {}", "({})", "number: {}", "{}"),
}
PLAIN_FRAMES = ("use {} here", "KEY={}", '"{}"', "({}), then", "export X='{}';")


def card(digits: str) -> str:
    """Return *digits* with the check digit that makes them a card's number."""
    for last in string.digits:
        whole = [int(digit) for digit in digits + last]
        if (sum(whole[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in whole[-2::-2])) % 10 == 0:
            return digits + last
    raise AssertionError


def test_two_hundred_planted_secrets_of_twenty_kinds_are_all_masked() -> None:
    chance = random.Random(7)

    def pick(letters: str, count: int) -> str:
        return "".join(chance.choices(letters, k=count))

    planted = [
        (secret, FRAMES.get(kind, PLAIN_FRAMES)[number % 5].format(secret))
        for kind, make in KINDS.items()
        for number in range(10)
        if (secret := make(pick))
    ]
    assert len(planted) == 200
    assert len(KINDS) == 20
    missed = [text for secret, text in planted if any(part in mask(text)[0] for part in secret.split("\n"))]
    assert missed == []
    whole, count = mask("\n".join(text for _, text in planted))
    assert not [secret for secret, _ in planted if secret in whole]
    assert count >= 200


@pytest.mark.parametrize(
    "text",
    [
        "The password is wrong and the token expired; reset the password: yesterday.",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 in 2026-11-28T10:15:30.123Z",
        "uuid 8c35adc1-9d20-4e7b-bfee-cccfa810f537, sha256 " + "ab12" * 16,
        "max_tokens=100000, order 1234567890123456, phone +49 170 1234567",
        'token = response.json()["token"]; api_key = os.environ["API_KEY"]',
        "skip-this-and-that, desk-lamp, https://example.com/a:b@c is fine? mail bob@example.com",
        "1111 1111 1111 1111 and 0000000000000000",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == (text, 0)


def test_a_masked_text_is_masked_once_and_keeps_what_stands_around() -> None:
    text, count = mask("connect to postgres://app:hunter2secret@db:5432/x with DB_PASSWORD=abc123!x please")
    assert text == "connect to postgres://[masked: url-password]@db:5432/x with DB_PASSWORD=[masked: password] please"
    assert count == 2
    assert mask(text) == (text, 0)


@pytest.mark.parametrize("text", ["a." * 50_000, "password" * 12_000, "1 " * 50_000, "-----BEGIN A PRIVATE KEY-----" * 3000,
                                  "eyJ" + "a" * 100_000, "://" * 30_000, "sk-" * 30_000])  # fmt: skip
def test_no_text_takes_long(text: str) -> None:
    begin = time.process_time()
    mask(text[:100_000])
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("before", [99_970, 99_990, 99_999, 100_000])
def test_a_secret_that_the_cut_goes_through_is_masked_as_a_whole(before: int) -> None:
    turn = Turn("user", "x" * before + " ghp_" + "a1" * 18 + " rest", None, "key")
    draft = _draft(turn, Reading("s", "/t.jsonl", "/p"), Project(Path("/p"), "project /p"))
    assert "ghp_" not in draft.text
    assert len(draft.text) <= 100_000


@pytest.mark.timeout(60)  # with the square of the length it takes many minutes
@pytest.mark.parametrize("piece", ["eyJ-", "eyJaaaaaaaa.eyJ-", "token:", "://a:", "sk-", "password="])
def test_a_hostile_text_is_masked_in_time_with_its_length(piece: str) -> None:
    mask(piece * (HOSTILE_LENGTH // len(piece)))
