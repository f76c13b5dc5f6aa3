"""`uninstall`: what is taken out, and that memories stay unless deleting them is confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from infinite_memory.backup.archive_format import MAGIC
from infinite_memory.cli import main
from infinite_memory.cli.client_files import CLIENTS, find_target
from infinite_memory.transfer.import_folders import UPLOADS


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own, where a memory has been used."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path / "memory"))
    for folder in ("memory/mongodb", "memory/backups", ".cache/infinite-memory/models", ".config/systemd/user"):
        (tmp_path / folder).mkdir(parents=True, mode=0o700)
    (tmp_path / "memory" / "mongodb" / "data").write_text("all that I know")
    (tmp_path / "memory" / "mongodb" / "owner.lock").touch()
    (tmp_path / ".config" / "systemd" / "user" / "infinite-memory.service").write_text("[Unit]\n")
    (tmp_path / ".config" / "systemd" / "user" / "other.service").write_text("[Unit]\n")
    return tmp_path


def files_of_clients(user: Path) -> list[Path]:
    return [find_target(client, {}, "linux", user).file for client in CLIENTS]


def test_connections_units_and_cache_go_and_memories_stay(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for client in CLIENTS:
        assert main(["connect", client]) == 0
    assert all("infinite-memory" in file.read_text() for file in files_of_clients(user))
    capsys.readouterr()
    assert main(["uninstall"]) == 0
    assert not any("infinite-memory" in file.read_text() for file in files_of_clients(user))
    assert [file.name for file in (user / ".config" / "systemd" / "user").iterdir()] == ["other.service"]
    assert not (user / ".cache" / "infinite-memory").exists()
    assert (user / "memory" / "mongodb" / "data").read_text() == "all that I know"
    said = capsys.readouterr().out
    assert f"your memories stay in {user / 'memory'}" in said
    assert "pip uninstall infinite-memory" in said


def test_a_dry_run_changes_nothing(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "cursor"]) == 0
    before = sorted(path for path in user.rglob("*"))
    assert main(["uninstall", "--dry-run", "--delete-data"]) == 0
    assert sorted(path for path in user.rglob("*")) == before
    said = capsys.readouterr().out
    assert f"would delete {user / 'memory'}" in said
    assert "would take the entry out of" in said


def test_memories_are_deleted_only_when_asked_twice(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uninstall", "--delete-data"]) == 2
    assert (user / ".cache" / "infinite-memory").exists()
    assert "--delete-data asks on a terminal; elsewhere say --yes too" in capsys.readouterr().err
    assert main(["uninstall", "--yes"]) == 0
    assert (user / "memory" / "mongodb" / "data").exists()
    assert main(["uninstall", "--delete-data", "--yes"]) == 0
    assert not (user / "memory").exists()


@pytest.mark.parametrize("flags", [[], ["--delete-data", "--yes"]])
def test_what_lies_outside_the_home_is_named_always(
    user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    (user / "elsewhere").mkdir()
    (user / "elsewhere" / "backup_2026-11-29T03-00-00Z.dump").touch()
    monkeypatch.setenv("INFINITE_MEMORY_MONGODB__URI", "mongodb://db1.example/")
    monkeypatch.setenv("INFINITE_MEMORY_BACKUP__FOLDER", str(user / "elsewhere"))
    assert main(["uninstall", *flags]) == 0
    told = capsys.readouterr().out
    assert "memories and tokens stay on the server that mongodb.uri names" in told
    assert f"backups stay in {user / 'elsewhere'}" in told


def test_a_folder_that_is_no_memory_is_never_deleted(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (user / "letters").mkdir()
    (user / "letters" / "one.txt").write_text("dear Ada")
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(user / "letters"))
    assert main(["uninstall", "--delete-data", "--yes"]) == 1
    assert (user / "letters" / "one.txt").read_text() == "dear Ada"


def test_what_is_generally_found_in_folders_makes_none_a_memory(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "logs/access.log",
        "mongodb/WiredTiger",
        "sidecars/x",
        "backups/old.dump",
        "config.toml",
        "daemon.lock",
    ):
        (user / "server" / name).parent.mkdir(parents=True, exist_ok=True)
        (user / "server" / name).write_text("not ours")
    before = sorted((user / "server").rglob("*"))
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(user / "server"))
    assert main(["uninstall", "--delete-data", "--yes"]) == 1
    assert sorted((user / "server").rglob("*")) == before


def test_other_files_in_the_home_stay_and_are_listed_beforehand(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = user / "memory"
    foreign = [
        "thesis.docx",
        "photos/a.jpg",
        "logs/access.log",
        "backups/letters.zip",
        "backups/other.dump",
        "hooks/post-commit",
        "imports/mine.csv",
        "imports/.infinite-memory-uploads/thesis.txt",
        f"{UPLOADS}/mine.csv",
        f"{UPLOADS}/upload-mine/mine.csv",
    ]
    own = [
        f"{UPLOADS}/upload-0123456789abcdef/notes.txt",
        "config.toml", "daemon.lock", "http.token", "forgotten.json", "logs/infinite-memory.log.1", "logs/mongod.log",
        "backups/backup_2023-05-15T10-00-00Z.dump", "hooks/spool/1.json", "hooks/control.json", "sidecars/text/text-00000001",
    ]  # fmt: skip
    for name in (*foreign, *own):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    (user / "documents").mkdir()
    (user / "documents" / "thesis.txt").write_text("mine")
    (home / UPLOADS / "upload-fedcba9876543210").symlink_to(user / "documents")
    (home / "backups" / "mine.dump").write_bytes(MAGIC)
    own.append("backups/mine.dump")
    assert main(["uninstall", "--dry-run", "--delete-data"]) == 0
    said = capsys.readouterr().out
    assert all((home / name).exists() for name in (*foreign, *own))
    for name in (
        "thesis.docx",
        "photos",
        "logs/access.log",
        "backups/letters.zip",
        "backups/other.dump",
        "hooks/post-commit",
    ):
        assert f"{home / name} stays" in said
    for name in ("mongodb", "config.toml", "hooks/spool", "backups/mine.dump", "logs/mongod.log"):
        assert f"would delete {home / name}\n" in said
    assert main(["uninstall", "--delete-data", "--yes"]) == 0
    assert sorted(path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()) == sorted(foreign)
    assert (user / "documents" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("home", "cache"),
    [
        ("infinite-memory", "."),
        ("infinite-memory/home", "."),
        ("infinite-memory/models", "."),
        ("infinite-memory/models/.mine", "."),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_home_in_the_cache_stays(
    user: Path, monkeypatch: pytest.MonkeyPatch, home: str, cache: str, named: bool
) -> None:
    """Also that of another memory than the one that is in use."""
    base = user / "both"
    data = base / home / "mongodb" / "data"
    data.parent.mkdir(parents=True)
    data.write_text("the only copy")
    (data.parent / "owner.lock").touch()
    models = base / "infinite-memory" / "models"
    for model in ("all-MiniLM-L6-v2", ".all-MiniLM-L6-v2.work"):
        (models / model).mkdir(parents=True)
        (models / model / "manifest.json").write_text("{}")
    (models / "letter.txt").write_text("not ours")
    (models / ".git").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / cache))
    if named:
        monkeypatch.setenv("INFINITE_MEMORY_HOME", str(base / home))
    assert main(["uninstall"]) == 0
    assert data.read_text() == "the only copy"
    assert (models / "letter.txt").read_text() == "not ours"
    assert (models / ".git").is_dir()
    assert not list(models.rglob("manifest.json"))


def test_a_file_that_cannot_be_understood_is_left_and_said(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = find_target("cursor", {}, "linux", user).file
    file.parent.mkdir()
    file.write_text("{ not json")
    assert main(["uninstall"]) == 1
    assert str(file) in capsys.readouterr().err
    assert file.read_text() == "{ not json"
