"""Keeps secrets out of what is written for anybody to read: replies, logs, errors, status. Standard library only.

Settings are marked secret once, in `config`. Their values are remembered here as they are read, whatever way they came, and leave the
texts of our errors and log lines; user name and password of any URL leave them too, remembered or not.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
_MIN_CHARS = 4  # a shorter secret would take ordinary words along
# The look behind keeps it linear: without it a long run of letters before "://" is read again from each of them.
_USERINFO = re.compile(r"((?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]*://)[^\s/?#'\"<>@]*@(?:[^\s/?#'\"<>@]*@)*")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^@/?#]*@)?"
    r"(?P<hosts>(?:[\w.%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:,(?:[\w.%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?)*)"
    r"(?P<path>/[^@?#]*)?(?P<rest>[?#].*)?"
)
_secrets: set[str] = set()


def hide(value: object) -> str:
    """Return a secret as it may be shown: of a URL scheme, hosts and path, of anything else nothing."""
    url = _URL.fullmatch(str(value))
    if url is None:
        return HIDDEN
    user = f"{HIDDEN}@" if url["user"] else ""
    return f"{url['scheme']}{user}{url['hosts']}{url['path'] or ''}{'?' + HIDDEN if url['rest'] else ''}"


def remember(value: object) -> None:
    """Keep a secret, and the parts of a URL that are secret by themselves, out of texts from now on."""
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
        parts.discard(value)  # a URL without anything secret in it
    parts |= {unquote(part) for part in parts}
    _secrets.update(part for part in parts if len(part) >= _MIN_CHARS)


def redacted(text: str) -> str:
    """Return *text* without what is secret."""
    if "://" in text:
        text = _USERINFO.sub(rf"\g<1>{HIDDEN}@", text)
    for secret in sorted(_secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text
