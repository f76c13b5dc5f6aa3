"""What the tests of real processes share: an installation over a fresh home, and one that a whole file uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import LONG, Installation, need_parts


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """A home that this test alone uses; no daemon runs yet."""
    need_parts()
    with Installation(tmp_path / "home", is_stopped=LONG) as one:
        yield one


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon runs for a whole file, for tests that leave it as it is but for the memories they store."""
    need_parts()
    with Installation(tmp_path_factory.mktemp("shared") / "home", is_stopped=LONG) as one:
        assert one.command("daemon", "start").returncode == 0
        yield one
