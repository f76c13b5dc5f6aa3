"""What holds for all tests."""

from __future__ import annotations

import gc
import itertools

import pytest
from hypothesis import HealthCheck, settings

from infinite_memory import redaction

# No test here may fail because the machine is busy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test calls a secret is a word like any other in the next."""
    monkeypatch.setattr(redaction, "_secrets", set[str]())


_tests = itertools.count(1)


def pytest_runtest_teardown() -> None:
    """Collect garbage between tests: in a process of thousands of them a full collection takes as long as a held event loop may."""
    if next(_tests) % 50 == 0:
        gc.collect()
