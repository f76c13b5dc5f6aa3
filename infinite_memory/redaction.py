"""Redacts secrets in replies, logs, errors and status. Standard library only.

Settings are marked secret once, in `settings`. Their values are registered here as they are loaded, from whatever source, and redacted
in our errors and log lines; user name and password of any URL are redacted too, registered or not.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
_MIN_CHARS = 4  # redacting a shorter secret would hit ordinary words
# The lookbehind keeps it linear: without it, a long run of letters before "://" is scanned again from each of them.
_USERINFO = re.compile(r"((?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]*://)[^\s/?#'\"<>@]*@(?:[^\s/?#'\"<>@]*@)*")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^@/?#]*@)?"
    r"(?P<hosts>(?:[\w.%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:,(?:[\w.%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?)*)"
    r"(?P<path>/[^@?#]*)?(?P<rest>[?#].*)?"
)
_secrets: set[str] = set()


def hide(value: object) -> str:
    """Return a secret in a form that can be shown: scheme, hosts and path of a URL, nothing of anything else."""
    url = _URL.fullmatch(str(value))
    if url is None:
        return HIDDEN
    user = f"{HIDDEN}@" if url["user"] else ""
    return f"{url['scheme']}{user}{url['hosts']}{url['path'] or ''}{'?' + HIDDEN if url['rest'] else ''}"


def remember(value: object) -> None:
    """Register a secret, and the secret parts of a URL, for redaction."""
    if not isinstance(value, str) or not value.strip():
        return
    parts = {value}
    _, sign, rest = value.partition("://")
    if sign:
        user, has_user, _ = rest.rpartition("@")
        _, _, password = user.partition(":")
        parts |= {user, password} if has_user else set()
        _, _, query = rest.partition("?")
        for pair in re.split(r"[&;,]", query):
            name, _, option = pair.partition("=")
            if re.search(r"pass|token|secret|key|properties", name, re.IGNORECASE):
                parts |= {option, option.rpartition(":")[2]}
    if sign and HIDDEN not in hide(value):
        parts.discard(value)  # a URL without secrets
    parts |= {unquote(part) for part in parts}
    _secrets.update(part for part in parts if len(part) >= _MIN_CHARS)


def redacted(text: str) -> str:
    """Return *text* with all secrets redacted."""
    if "://" in text:
        text = _USERINFO.sub(rf"\g<1>{HIDDEN}@", text)
    for secret in sorted(_secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text
