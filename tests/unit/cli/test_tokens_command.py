"""What `infinite-memory tokens create` refuses, and how it says so."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.cli import main
from infinite_memory.contracts.fields import ValidationContext, parse_fields
from infinite_memory.errors import InvalidRequestError
from infinite_memory.settings import LimitsSettings
from infinite_memory.transports.http.api.tokens import ExpiryField

NOW = dt.datetime(2026, 11, 29, tzinfo=dt.UTC)


def test_users_and_scopes_together_are_a_usage_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path))
    assert main(["tokens", "create", "--user", "ada", "--scope", "Work"]) == 2
    assert "--user and --scope" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_expiry_is_told_every_form() -> None:
    checking = ValidationContext(LimitsSettings(), ZoneInfo("UTC"))
    field = ExpiryField(name="expires", about="When it stops to work", now=NOW)
    assert field.parse("12h", "expires", checking) == NOW + dt.timedelta(hours=12)
    for wrong in ("5m", ""):
        with pytest.raises(InvalidRequestError, match=rf"^expires: .*'{wrong}'.*12h, 30d, 4w$"):
            parse_fields((field,), {"expires": wrong}, "", checking)
    assert parse_fields((field,), {"expires": None}, "", checking).find_instant("expires") is None
