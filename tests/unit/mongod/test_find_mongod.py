"""Which mongod is run: the configured one, the one on PATH, the one that a package brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from infinite_memory.errors import StoreUnavailableError
from infinite_memory.mongod.binary import find_binary


def make_binary(file: Path, mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a mongod that lost its run bit, first on Python's path; nothing on PATH."""
    package = tmp_path / "site" / "fiftyone" / "db"
    binary = make_binary(package / "bin" / "mongod", 0o644)
    (package.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return binary


def test_the_configured_mongod_comes_first(tmp_path: Path, bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = make_binary(tmp_path / "bin" / "mongod")
    configured = make_binary(tmp_path / "mine" / "mongod-8")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_binary(configured) == configured
    assert find_binary() == on_path


def test_the_package_s_mongod_is_made_runnable(bundled: Path) -> None:
    found = find_binary()
    assert found == bundled
    assert found.stat().st_mode & 0o111 == 0o111


def test_a_configured_mongod_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"mongodb\.binary.*nowhere"):
        find_binary(tmp_path / "nowhere")


def test_without_any_mongod_it_is_said_what_to_do(bundled: Path) -> None:
    bundled.unlink()
    with pytest.raises(StoreUnavailableError, match=r"install MongoDB.*mongodb\.uri"):
        find_binary()
