"""Packaging and set-up: the lock files, what is documented, and that a ready checkout costs nothing to check."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))


def requirements() -> list[Requirement]:
    """Every requirement of setup.cfg, extras too."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = settings["options"]["install_requires"].splitlines()
    for extra in settings["options.extras_require"].values():
        lines += extra.splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, set[str]]:
    """The versions that the lock files name for each package."""
    found: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, number in re.findall(
            r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock.read_text(encoding="utf-8"), re.MULTILINE
        ):
            found.setdefault(normal(name), set()).add(number)
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_has_checksums_and_names_no_place(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert not re.search(r"://|--(index|extra-index|find-links|trusted)|file:|^-", text, re.MULTILINE)
    for entry in re.split(r"\n(?=[A-Za-z])", text)[1:]:
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_every_requirement_is_locked_within_its_range() -> None:
    versions = locked()
    for requirement in requirements():
        for number in versions[normal(requirement.name)]:
            assert requirement.specifier.contains(number), f"{requirement} and {number}"


def test_every_requirement_is_explained() -> None:
    explained = "".join(file.read_text(encoding="utf-8") for file in ROOT.glob("docs/dependencies*.md"))
    for requirement in requirements():
        assert requirement.name in explained, requirement.name


def test_the_six_packages_that_were_asked_for_are_named() -> None:
    names = {normal(requirement.name) for requirement in requirements()}
    assert {"pymongo", "faiss-cpu", "dateparser", "apscheduler", "motor", "sentence-transformers"} <= names


def test_what_is_installed_is_what_is_locked() -> None:
    if not (ROOT / ".venv" / "ready-test").is_file():
        pytest.skip("this environment was not made by scripts/test")
    versions = locked()
    for name in ("pymongo", "faiss-cpu", "numpy", "onnxruntime", "morpheme", "tokenizers", "tantivy", "pytest"):
        assert version(name) in versions[name]


def test_a_ready_checkout_is_found_ready_at_once_and_silently() -> None:
    stamp = ROOT / ".venv" / "ready-test"
    if not stamp.is_file():
        pytest.skip("this environment was not made by scripts/test")
    if str(ROOT) not in stamp.read_text("utf-8"):
        pytest.skip("this environment was made for another checkout, and would be made again")
    done = subprocess.run(["sh", str(ROOT / "scripts" / "prepare"), "test"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_without_a_python_set_up_says_what_is_needed(tmp_path: Path) -> None:
    """A copy of the script in an empty checkout, on a PATH that has the shell's tools and no Python."""
    scripts = tmp_path / "checkout" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "prepare").write_bytes((ROOT / "scripts" / "prepare").read_bytes())
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname", "cat", "cksum"):
        (tools / tool).symlink_to(Path("/usr/bin") / tool)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"} | {"PATH": str(tools)}
    done = subprocess.run(
        ["/bin/sh", str(scripts / "prepare"), "serve"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no Python 3.11 or newer" in done.stderr


def test_set_up_uses_the_standard_library_only() -> None:
    program = "import runpy, sys; sys.argv = ['x']; runpy.run_path(sys.orig_argv[-1], run_name='set_up')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(ROOT / "scripts" / "setup_env.py")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_folder_with_modules_is_a_package() -> None:
    """Else a wheel lacks it, while a checkout that is installed in place works."""
    folders = {file.parent for file in (ROOT / "infinite_memory").rglob("*.py")}
    assert [folder.name for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
