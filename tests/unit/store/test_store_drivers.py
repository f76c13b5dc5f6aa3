"""Choosing a driver: a name that is wrong, and one whose library is not installed, are said so."""

from __future__ import annotations

import sys

import pytest

from infinite_memory.errors import ConfigError
from infinite_memory.store.mongo.drivers import make_client


def test_an_unknown_driver_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"mongodb\.driver: 'mysql'"):
        make_client("mysql", "mongodb://localhost", {})


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "motor.motor_asyncio", None)
    with pytest.raises(ConfigError, match="package motor"):
        make_client("motor", "mongodb://localhost", {})
