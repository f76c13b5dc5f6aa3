"""Settings: who wins, what is refused and how that is said, which ones travel with a client."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from infinite_memory.config import Config, known_settings, load_config
from infinite_memory.errors import ConfigError
from infinite_memory.models import MAX_MEMORY_TAGS

ROOT = Path(__file__).resolve().parents[2]


def load(
    tmp_path: Path, text: str = "", environ: dict[str, str] | None = None, flags: dict[str, str] | None = None
) -> Config:
    file = tmp_path / "config.toml"
    file.write_text(text, "utf-8")
    return load_config(file, environ or {}, flags)


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    config = load_config(tmp_path / "missing.toml", {})
    assert config == Config()
    assert config.origins == {}


def test_a_home_wins_over_its_checkout(tmp_path: Path) -> None:
    checkout, home = tmp_path / "checkout.toml", tmp_path / "config.toml"
    checkout.write_text("[log]\nlevel = 'DEBUG'\nfile_mb = 1\n", "utf-8")
    home.write_text("[log]\nfile_mb = 2\n", "utf-8")
    config = load_config(home, {}, checkout_file=checkout)
    assert (config.log.level, config.log.file_mb) == ("DEBUG", 2)
    assert config.origins == {"log.level": str(checkout), "log.file_mb": str(home)}
    assert load_config(home, {"INFINITE_MEMORY_LOG__LEVEL": "ERROR"}, checkout_file=checkout).log.level == "ERROR"
    checkout.write_text("[log]\nlevl = 'DEBUG'\n", "utf-8")
    with pytest.raises(ConfigError, match=r"checkout\.toml: there is no setting log\.levl; did you mean log\.level"):
        load_config(home, {}, checkout_file=checkout)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = "[log]\nlevel = 'DEBUG'\nfile_mb = 1\n[time]\nzone = 'Asia/Tokyo'\n"
    environ = {"INFINITE_MEMORY_LOG__LEVEL": "ERROR", "INFINITE_MEMORY_LOG__FILE_MB": "2"}
    config = load(tmp_path, file, environ, {"log.level": "WARNING"})
    assert (config.log.level, config.log.file_mb, config.time.zone) == ("WARNING", 2, "Asia/Tokyo")
    assert config.origins == {
        "log.level": "flag", "log.file_mb": "environment", "time.zone": str(tmp_path / "config.toml"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("daemon.idle_exit_s", "ten", "a number"),
        ("daemon.idle_exit_s", "-1", "at least 0"),
        ("daemon.idle_exit_s", "nan", "a number"),
        ("daemon.idle_exit_s", "inf", "a number"),
        ("limits.tags", "1.5", "a whole number"),
        ("limits.tags", "0", "at least 1"),
        ("limits.tags", str(MAX_MEMORY_TAGS + 1), f"at most {MAX_MEMORY_TAGS}"),
        ("limits.metadata_depth", "91", "at most 90"),
        ("log.level", "LOUD", "one of DEBUG, INFO, WARNING, ERROR"),
        ("daemon.transport", "pigeon", "one of unix, tcp"),
        ("scopes.auto_create", "perhaps", "true or false"),
        ("mongodb.database", "a b", "a name of 1 to 63 characters"),
        ("mongodb.database", "a/c", "a name of 1 to 63 characters"),
        ("http.origins", "not an origin", "origins such as https://memory.example.org:8443"),
        ("http.origins", "https://a.example/path", "origins such as"),
        ("http.origins", "https://a.example, b.example", "origins such as"),
        ("backup.time", "25:00", "a time of day such as 03:00"),
        ("scopes.default", " all ", "a scope's name of 1 to 256 characters; ALL and null are reserved"),
        ("scopes.default", "null", "a scope's name"),
        ("scopes.default", "  ", "a scope's name of 1 to 256 characters"),
        ("scopes.default", "x" * 257, "a scope's name of 1 to 256 characters"),
        ("scopes.default", "\udcff", "a text"),
    ],
)
def test_a_wrong_value_is_refused_by_name(tmp_path: Path, name: str, text: str, expected: str) -> None:
    variable = known_settings()[name].variable
    with pytest.raises(ConfigError, match=rf"environment: {name} = .* {expected}"):
        load(tmp_path, environ={variable: text})


def test_an_unknown_setting_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no setting mongodb\.url; did you mean mongodb\.uri\?"):
        load(tmp_path, "[mongodb]\nurl = 'x'\n")
    with pytest.raises(ConfigError, match=r"environment: there is no setting logs\.level"):
        load(tmp_path, environ={"INFINITE_MEMORY_LOGS__LEVEL": "INFO"})
    with pytest.raises(ConfigError, match=r"flag: there is no setting level"):
        load(tmp_path, flags={"level": "INFO"})
    with pytest.raises(ConfigError, match="settings stand under a"):
        load(tmp_path, "level = 'INFO'\n")


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load(tmp_path, "[log\n")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ConfigError, match=r"folder\.toml"):
        load_config(tmp_path / "folder.toml", {})
    (tmp_path / "latin.toml").write_bytes(b"[time]\nzone = '\xff'\n")
    with pytest.raises(ConfigError, match=r"latin\.toml"):
        load_config(tmp_path / "latin.toml", {})
    (tmp_path / "long.toml").write_text(f"[http]\nport = {'9' * 5000}\n")
    with pytest.raises(ConfigError, match=r"long\.toml"):
        load_config(tmp_path / "long.toml", {})


def test_the_mark_that_some_editors_begin_a_file_with_is_no_setting(tmp_path: Path) -> None:
    (tmp_path / "notepad.toml").write_bytes(b"\xef\xbb\xbf[time]\r\nzone = 'Asia/Tokyo'\r\n")
    assert load_config(tmp_path / "notepad.toml", {}).time.zone == "Asia/Tokyo"


def test_variables_that_are_none_of_ours_are_left_alone(tmp_path: Path) -> None:
    environ = {
        "INFINITE_MEMORY_HOME": "/x",
        "INFINITE_MEMORY_TEST_LONG": "1",
        "INFINITE_MEMORY_TEST__X": "1",
        "PATH": "",
    }
    assert load(tmp_path, environ=environ) == Config()


def test_an_empty_text_takes_a_setting_back(tmp_path: Path) -> None:
    config = load(tmp_path, "[time]\nzone = 'Asia/Tokyo'\n[backup]\ntime = '04:00'\n", {
        "INFINITE_MEMORY_TIME__ZONE": "", "INFINITE_MEMORY_BACKUP__TIME": "",
    })  # fmt: skip
    assert (config.time.zone, config.backup.time) == (None, None)


def test_texts_of_the_environment_take_the_setting_s_own_kind(tmp_path: Path) -> None:
    environ = {"INFINITE_MEMORY_SCOPES__AUTO_CREATE": "No", "INFINITE_MEMORY_DAEMON__IDLE_EXIT_S": "5"}
    config = load(tmp_path, environ=environ)
    assert config.scopes.auto_create is False
    assert config.daemon.idle_exit_s == 5.0


def test_what_belongs_to_one_client_is_marked() -> None:
    marked = {name for name, one in known_settings().items() if one.per_session}
    assert {"scopes.default", "scopes.auto_create", "time.zone", "limits.top_k"} <= marked
    assert not {"mongodb.uri", "embedding.model", "embedding.precision", "daemon.transport"} & marked


def test_the_documented_defaults_are_the_real_ones() -> None:
    text = (ROOT / "config" / "infinite-memory.toml").read_text("utf-8")
    settings = "\n".join(
        line.removeprefix("# ") if " = " in line else line for line in text.splitlines() if " = ..." not in line
    )
    lines = [
        line for line in settings.splitlines() if line.startswith("[") or (" = " in line and not line.startswith("#"))
    ]
    documented = {
        f"{section}.{name}": value
        for section, table in tomllib.loads("\n".join(one for one in lines if _is_toml(one))).items()
        for name, value in table.items()
    }
    known = known_settings()
    assert {name: known[name].default for name in documented} == documented
    missing = [name for name, one in known.items() if name.split(".")[1] not in text]
    assert missing == []


def _is_toml(line: str) -> bool:
    try:
        tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return False
    return True
