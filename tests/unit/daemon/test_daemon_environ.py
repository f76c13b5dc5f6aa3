"""What a daemon is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

import infinite_memory
from infinite_memory.daemon.handshake import _daemon_environ


def test_a_daemon_imports_the_package_of_whoever_starts_it(tmp_path: Path) -> None:
    root = Path(infinite_memory.__file__).resolve().parents[1]
    assert root.name != "site-packages"  # the tests run in a checkout
    assert _daemon_environ(tmp_path)["PYTHONPATH"] == str(root)


def test_the_heap_has_huge_pages_unless_whoever_starts_the_daemon_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert _daemon_environ(tmp_path)["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")  # of two of a name the last counts
    assert _daemon_environ(tmp_path)["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1:glibc.malloc.hugetlb=0"
