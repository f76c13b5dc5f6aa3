"""The time zone of a client: that of the setting, else of its ``TZ``, else the system's present one.

Why not `tzlocal` alone: it reads the ``TZ`` of this process, which is the daemon's and not the client's, and caches the result.
``TZ`` is supported in all forms of tzset(3): a name, a path, and POSIX rules such as ``CET-1CEST,M3.5.0,M10.5.0/3``.
"""

from __future__ import annotations

import io
import os
import re
import struct
import sys
import zoneinfo
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

from infinite_memory.errors import ConfigError, truncated_repr

LOCALTIME = Path("/etc/localtime")
TIMEZONE = Path("/etc/timezone")
MAX_FILE_BYTES = 64 * 1024  # of a time zone file; real ones have less than 4 KiB
_PREFIXES = re.compile(r"^(?:posix|right)/")
_STANDARD = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?\d{1,2}(?::\d{2}){0,2}"
_WITHOUT_RULES = re.compile(
    rf"{_STANDARD}(?:[A-Za-z]{{3,}}|<[A-Za-z0-9+-]{{3,}}>)(?:[+-]?\d{{1,2}}(?::\d{{2}}){{0,2}})?"
)
_DEFAULT_RULES = ",M3.2.0,M11.1.0"  # default of the C library for a rule with summer time and no dates
_HEADER = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 1) + struct.pack(">lbb", 0, 0, 0) + b"\0"


def find_zone(name: str | None, environ: Mapping[str, str]) -> ZoneInfo:
    """Return the user's time zone: the one called *name*, else the one of *environ* (TZ), else the system's.

    Raises:
        ConfigError: the one named does not exist.
    """
    return zone_and_note(name, environ)[0]


def zone_and_note(name: str | None, environ: Mapping[str, str]) -> tuple[ZoneInfo, str | None]:
    """Return the zone as `find_zone` does, and a note for the user if their TZ was not understood as is, or None.

    Raises:
        ConfigError: the one named does not exist.
    """
    if name is not None:
        if (zone := _named(name)) is None:
            raise ConfigError(f"time.zone = {name!r} is not an IANA time zone name such as Europe/Berlin")
        return zone, None
    tz_value = environ.get("TZ", "").strip()
    if not tz_value:
        return system_zone(), None
    zone, note = _of_variable(tz_value)
    if zone is None:
        zone = system_zone()
        note = f"TZ = {truncated_repr(tz_value)} is not understood; times are read in {zone.key} (setting time.zone)"
    return zone, note


def system_zone() -> ZoneInfo:
    """Return the system's zone; not cached, as it may change."""
    if sys.platform == "win32":
        from tzlocal import reload_localzone

        zone = reload_localzone()
        return zone if isinstance(zone, ZoneInfo) else ZoneInfo("UTC")
    if LOCALTIME.is_symlink() and (zone := _of_path(LOCALTIME.resolve())) is not None:
        return zone
    data = _read(LOCALTIME)
    if data is None:
        return _of_timezone_file() or ZoneInfo("UTC")
    return _same_rules(data) or _from_data(data, "localtime") or ZoneInfo("UTC")


def _named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _of_variable(value: str) -> tuple[ZoneInfo | None, str | None]:
    value = value.removeprefix(":")
    if value.startswith(os.sep):
        return _of_path(Path(value)), None
    if (zone := _named(_PREFIXES.sub("", value))) is not None:
        return zone, None
    if _WITHOUT_RULES.fullmatch(value):
        note = (
            f"TZ = {truncated_repr(value)} does not say when summer time is: read as the system does, with the dates of the United States; "
            "time.zone takes a name such as Europe/Berlin"
        )
        return _of_rule(value, value + _DEFAULT_RULES), note
    return (_of_rule(value, value), None) if re.match(_STANDARD, value) else (None, None)


def _of_rule(key: str, rule: str) -> ZoneInfo | None:
    """Return a zone from a POSIX rule: time zone files end with such a rule, so this parses a file that has nothing else."""
    if not rule.isascii() or not rule.isprintable():
        return None
    return _from_data(_HEADER + _HEADER + b"\n" + rule.encode() + b"\n", key)


def _of_path(path: Path) -> ZoneInfo | None:
    """Return the zone of a file: by the name in its path, else by its rules."""
    _, sign, name = str(path).partition("/zoneinfo/")
    if sign and (zone := _named(_PREFIXES.sub("", name))) is not None:
        return zone
    data = _read(path)
    return None if data is None else _same_rules(data) or _from_data(data, path.name)


def _read(path: Path) -> bytes | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES)
    except (OSError, ValueError):
        return None
    return data if data.startswith(b"TZif") else None


def _of_timezone_file() -> ZoneInfo | None:
    try:
        return _named(TIMEZONE.read_text("ascii").strip())
    except (OSError, ValueError):
        return None


def _same_rules(data: bytes) -> ZoneInfo | None:
    """Return the zone with an identical file; of several, the one that the system names, else the one with the most usual name."""
    named = _of_timezone_file()
    same = [
        name
        for folder in map(Path, zoneinfo.TZPATH)
        for name in ([named.key] if named is not None else []) + sorted(zoneinfo.available_timezones(), key=_unusual)
        if _has(folder / name, data)
    ]
    return _named(same[0]) if same else None


def _has(file: Path, data: bytes) -> bool:
    try:
        return file.stat().st_size == len(data) and file.read_bytes() == data
    except (OSError, ValueError):
        return False


def _unusual(name: str) -> tuple[bool, str]:
    """Return a sort key: ``Europe/Berlin`` before names kept only for compatibility (``Arctic/...``, ``CET``, ``Etc/...``)."""
    usual = ("Africa/", "America/", "Asia/", "Australia/", "Europe/", "Pacific/")
    return not name.startswith(usual), name


def _from_data(data: bytes, key: str) -> ZoneInfo | None:
    try:
        zone = ZoneInfo.from_file(io.BytesIO(data), key=key)
        zone.utcoffset(None)
    except (ValueError, OSError, struct.error, IndexError):
        return None
    return zone
