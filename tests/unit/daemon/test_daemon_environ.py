"""What a daemon is started with."""

from __future__ import annotations

from pathlib import Path

import infinite_memory
from infinite_memory.daemon.handshake import _daemon_environ


def test_a_daemon_imports_the_package_of_whoever_starts_it(tmp_path: Path) -> None:
    root = Path(infinite_memory.__file__).resolve().parents[1]
    assert root.name != "site-packages"  # the tests run in a checkout
    assert _daemon_environ(tmp_path)["PYTHONPATH"] == str(root)
