"""Packages for set-up: installed by the installer that is here, by checksum and without what they depend on."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from infinite_memory.embedding.packages import find_installers, install_packages
from infinite_memory.errors import EmbeddingError


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels in the place of the package index; pip is told of it as a user tells it."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path) -> str:
    """Put a package there that wants another one which is nowhere; gives its SHA-256."""
    about = "leaf-1.0.dist-info"
    files = {
        "leaf.py": "SAID = 'here'\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: leaf\nVersion: 1.0\nRequires-Dist: gigabytes-of-torch\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
        for name, text in files.items()
    ]
    file = folder / "leaf-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
        packed.writestr(f"{about}/RECORD", "\n".join([*digests, f"{about}/RECORD,,"]) + "\n")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def pins(folder: Path, sha256: str) -> Path:
    file = folder / "pins.txt"
    file.write_text(f"leaf==1.0 --hash=sha256:{sha256}\n")
    return file


def test_a_package_is_installed_without_what_it_depends_on(index: Path, tmp_path: Path) -> None:
    target, work = tmp_path / "packages", tmp_path / "work"
    install_packages([pins(tmp_path, wheel(index))], target, work)
    assert (target / "leaf.py").read_text() == "SAID = 'here'\n"
    assert list(work.iterdir()) == []


def test_another_checksum_is_refused(index: Path, tmp_path: Path) -> None:
    wheel(index)
    with pytest.raises(EmbeddingError, match=r"pip could not fetch its packages: .*"):
        install_packages([pins(tmp_path, "0" * 64)], tmp_path / "packages", tmp_path / "work")
    assert not (tmp_path / "packages").exists()


def test_without_an_index_the_reason_is_said(index: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"No matching distribution found for leaf==1\.0"):
        install_packages([pins(tmp_path, "0" * 64)], tmp_path / "packages", tmp_path / "work")


def test_what_installed_this_package_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = tmp_path / "uv"
    uv.write_text("")
    monkeypatch.setenv("UV", str(uv))
    assert find_installers() == [[sys.executable, "-m", "pip"], [str(uv), "pip"]]
    monkeypatch.setattr("infinite_memory.embedding.packages._installed_by", lambda: "uv")
    assert find_installers() == [[str(uv), "pip"], [sys.executable, "-m", "pip"]]
