"""Each session has its own client's time zone, whoever started the daemon."""

from __future__ import annotations

import os

from infinite_memory import Memory
from infinite_memory.zones import system_zone
from tests.processes import Installation


def test_each_session_has_its_clients_zone_and_not_that_of_who_started_the_daemon(installation: Installation) -> None:
    installation.environ["TZ"] = "Asia/Tokyo"
    assert installation.call("help", command="ping")["timezone"] == "Asia/Tokyo"
    assert installation.status()["timezone"] == "Asia/Tokyo"
    for said, zone in (
        (":/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0"),
        ("", system_zone().key),
    ):
        client = installation.serve(environ={"TZ": said})
        assert client.ask("help", command="ping")["timezone"] == zone
        frame = client.ask("recall_memory_by_time", time_query="yesterday")["time_frame"]
        assert frame["timezone"] == zone
    del installation.environ["TZ"]
    assert installation.call("help", command="ping")["timezone"] == system_zone().key


def test_a_zone_that_is_not_understood_is_said(shared: Installation) -> None:
    client = shared.serve(environ={"TZ": "Mars/Phobos"})
    assert client.ask("help", command="ping")["ignored_settings"][0].startswith("TZ = 'Mars/Phobos' is not understood")
    assert "Mars/Phobos" in client.errors()


def test_the_sdk_tells_its_programs_zone(shared: Installation) -> None:
    before = os.environ.get("TZ")
    try:
        for zone in ("Asia/Kolkata", "America/New_York"):
            os.environ["TZ"] = zone
            with Memory(home=shared.home) as memory:
                frame = memory.recall("yesterday").time_frame
                assert frame is not None
                assert frame.timezone == zone
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
