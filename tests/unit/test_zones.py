"""Which time zone a client lives in: every form of TZ is understood or named, and the system's is looked up each time."""

from __future__ import annotations

import datetime as dt
import shutil
import zoneinfo
from pathlib import Path

import pytest

from infinite_memory import zones
from infinite_memory.errors import ConfigError
from infinite_memory.zones import find_zone, zone_and_note

WINTER, SUMMER = dt.datetime(2026, 1, 15, 12), dt.datetime(2026, 7, 15, 12)
FILES = next((Path(one) for one in zoneinfo.TZPATH if Path(one, "Europe/Berlin").is_file()), None)
needs_files = pytest.mark.skipif(FILES is None, reason="the system has no files of zones")


@pytest.fixture(autouse=True)
def localtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(zones, "LOCALTIME", tmp_path / "localtime")
    monkeypatch.setattr(zones, "TIMEZONE", tmp_path / "timezone")
    return tmp_path / "localtime"


@pytest.mark.parametrize(
    ("said", "key", "winter", "summer"),
    [
        ("Europe/Berlin", "Europe/Berlin", 1, 2),
        (":Europe/Berlin", "Europe/Berlin", 1, 2),
        ("posix/Asia/Tokyo", "Asia/Tokyo", 9, 9),
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin", 1, 2),
        (":/usr/share/zoneinfo/America/New_York", "America/New_York", -5, -4),
        ("/var/db/timezone/zoneinfo/Asia/Kolkata", "Asia/Kolkata", 5.5, 5.5),
        ("EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0", -5, -4),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1CEST,M3.5.0,M10.5.0/3", 1, 2),
        ("AEST-10AEDT,M10.1.0,M4.1.0/3", "AEST-10AEDT,M10.1.0,M4.1.0/3", 11, 10),
        ("<-0330>3:30", "<-0330>3:30", -3.5, -3.5),
        ("UTC0", "UTC0", 0, 0),
        ("JST-9", "JST-9", 9, 9),
    ],
)
def test_every_form_of_the_variable_is_understood(said: str, key: str, winter: float, summer: float) -> None:
    zone, note = zone_and_note(None, {"TZ": said})
    assert (zone.key, note) == (key, None)
    hours = [at.replace(tzinfo=zone).utcoffset() for at in (WINTER, SUMMER)]
    assert hours == [dt.timedelta(hours=winter), dt.timedelta(hours=summer)]


def test_summer_time_without_dates_is_read_as_the_system_does_and_said() -> None:
    zone, note = zone_and_note(None, {"TZ": "CET-1CEST"})
    assert note is not None
    assert "CET-1CEST" in note
    assert dt.datetime(2026, 3, 10, 12, tzinfo=zone).utcoffset() == dt.timedelta(
        hours=2
    )  # from the second Sunday of March


@pytest.mark.parametrize(
    "said",
    [
        "Mars/Phobos",
        "/etc/passwd",
        "/dev/zero",
        "/no/such/file",
        "5",
        "America",
        "A\0b",
        "EST5EDT,M3.2.0",
        "../x",
        "x" * 9000,
    ],
)
def test_what_is_not_understood_is_named(said: str) -> None:
    zone, note = zone_and_note(None, {"TZ": said})
    assert zone.key == "UTC"
    assert note is not None
    assert "is not understood" in note
    assert len(note) < 300


def test_a_setting_wins_and_a_wrong_one_is_refused() -> None:
    assert zone_and_note("Asia/Tokyo", {"TZ": "Mars/Phobos"}) == (zoneinfo.ZoneInfo("Asia/Tokyo"), None)
    with pytest.raises(ConfigError, match="Mars/Phobos"):
        find_zone("Mars/Phobos", {})


@needs_files
def test_a_change_of_the_systems_zone_is_noticed(localtime: Path) -> None:
    assert FILES is not None
    for name in ("Europe/Berlin", "Asia/Tokyo"):
        localtime.unlink(missing_ok=True)
        localtime.symlink_to(FILES / name)
        assert find_zone(None, {}).key == name
        assert find_zone(None, {"TZ": ""}).key == name


@needs_files
def test_a_plain_file_is_known_by_its_rules(localtime: Path, tmp_path: Path) -> None:
    """Found in reports: a copy in the place of the link was taken for UTC."""
    assert FILES is not None
    shutil.copy(FILES / "America/New_York", localtime)
    assert find_zone(None, {}).key == "America/New_York"
    shutil.copy(FILES / "Europe/Berlin", localtime)
    assert find_zone(None, {}).utcoffset(SUMMER) == dt.timedelta(hours=2)
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert find_zone(None, {}).key == "Europe/Berlin"
    localtime.write_bytes(zones._HEADER * 2 + b"\nXXX-5:45\n")  # rules that no zone has
    zone = find_zone(None, {})
    assert (zone.key, zone.utcoffset(SUMMER)) == ("localtime", dt.timedelta(hours=5, minutes=45))


@pytest.mark.parametrize("content", [b"", b"no zone", b"TZif2"])
def test_a_broken_file_is_utc(localtime: Path, content: bytes) -> None:
    localtime.write_bytes(content)
    assert find_zone(None, {}).key == "UTC"
