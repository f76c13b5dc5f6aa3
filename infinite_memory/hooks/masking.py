"""Masks secrets before a turn is stored: keys and tokens by their issuers' documented formats, passwords by the name they are
assigned to, card numbers by their checksum. A masked secret is replaced with its kind, ``[masked: aws-access-key]``.

Why our own table and not detect-secrets: its regular expressions are the same public formats, but it reads files line by line, imports
`requests` for checking keys online, and has had no release since 2024. Entropy detectors are not used here, nor would they be there: a
conversation about code is full of hashes that are not secrets.
"""

from __future__ import annotations

import re

_FORMS = {
    "private-key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    "aws-access-key": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    "anthropic-key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "openai-key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}",
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b",
    "gitlab-token": r"\bgl(?:pat|dt|ft|ptt|rt|soat|cbt|agent)-[A-Za-z0-9_.-]{20,}",
    "slack-token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "slack-webhook": r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}",
    "discord-webhook": r"https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{20,}",
    "stripe-key": r"\b(?:sk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",
    "google-api-key": r"\bAIza[A-Za-z0-9_-]{35}",
    "google-oauth": r"\b(?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",
    "npm-token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi-token": r"\bpypi-AgE[A-Za-z0-9_-]{40,}",
    "huggingface-token": r"\bhf_[A-Za-z0-9]{30,}\b",
    "sendgrid-key": r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "twilio-key": r"\bSK[0-9a-f]{32}\b",
    "telegram-token": r"\b\d{8,10}:AA[A-Za-z0-9_-]{32,35}\b",
    "digitalocean-token": r"\bdo[opr]_v1_[0-9a-f]{64}\b",
    "azure-key": r"(?<=AccountKey=)[A-Za-z0-9+/]{40,}={0,2}",
    "json-web-token": r"\beyJ[A-Za-z0-9_-]{8,800}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}",
    "url-password": r"(?<=://)[^\s:/@]*:[^\s@/]+(?=@)",
    "bearer-token": r"(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9._~+/-]{16,}={0,2}",
    "password": (
        r"(?i:(?:passw(?:or)?d|passwort|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token|token|pwd)"
        r"[\w-]{0,40}[\"']?[ \t]*(?:=|:|\bis\b)[ \t]*)(?:\"(?P<double>[^\"\n]{6,})\"|'(?P<single>[^'\n]{6,})'|(?P<bare>[^\s\"',;]{6,}))"
    ),
}
BLOCK = "private-key"
BLOCK_MASK = f"[masked: {BLOCK}]"
_SECRET = {kind: re.compile(form, re.DOTALL if kind == BLOCK else 0) for kind, form in _FORMS.items()}
_CARD = re.compile(r"(?<![\d.-])(?:\d[ -]?){12,18}\d(?!\d|[.-]\d)")
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[]|\$[({A-Za-z_]|<")  # an expression that reads a secret, not the secret itself
_MIXED = re.compile(r"(?=.*\d)(?=.*[A-Za-z])|.*[^\w.]")  # does not match an ordinary word


def mask_blocks(text: str) -> tuple[str, int]:
    """Return *text* with each secret that spans lines replaced by its kind, and how many there were.

    For callers that split a text into lines, after which `mask` would not find such a secret. All other kinds stay within a line.
    """
    return _SECRET[BLOCK].subn(BLOCK_MASK, text) if "-----BEGIN" in text else (text, 0)


def mask(text: str) -> tuple[str, int]:
    """Return *text* with each secret replaced by its kind, and how many there were."""
    count = 0
    for kind, pattern in _SECRET.items():
        if kind == "password":
            text, replaced = _mask_passwords(text)
        else:
            text, replaced = pattern.subn(f"[masked: {kind}]", text)
        count += replaced
    cards = 0

    def hide(match: re.Match[str]) -> str:
        nonlocal cards
        if not _has_checksum(match[0]):
            return match[0]
        cards += 1
        return "[masked: card-number]"

    return _CARD.sub(hide, text), count + cards


def _mask_passwords(text: str) -> tuple[str, int]:
    """Mask values assigned to a name such as ``DB_PASSWORD``; unquoted ones only if they are not ordinary words."""
    count = 0

    def hide(match: re.Match[str]) -> str:
        nonlocal count
        name = next(name for name in ("double", "single", "bare") if match[name] is not None)
        value = match[name]
        is_word = name == "bare" and (_CODE.match(value) or not _MIXED.match(value.rstrip(".!?)")))
        if value.startswith("[masked") or is_word:
            return match[0]
        count += 1
        start, end = match.start(name) - match.start(), match.end(name) - match.start()
        return f"{match[0][:start]}[masked: password]{match[0][end:]}"

    return _SECRET["password"].sub(hide, text), count


def _has_checksum(number: str) -> bool:
    """True if the digits pass the Luhn check and start like a card number."""
    digits = [int(digit) for digit in number if digit.isdigit()]
    if digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) < 3:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
