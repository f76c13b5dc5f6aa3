"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No test here may fail because the machine is busy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
