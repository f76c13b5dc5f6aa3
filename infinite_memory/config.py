"""Settings: defaults < a checkout's file < the home's file < environment < flags, validated into one frozen `Config`.

An unknown key or invalid value is refused at startup, with its name and origin. The settings are defined in `settings`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import keyword
import math
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from infinite_memory.contracts.registry import list_specs
from infinite_memory.errors import ConfigError
from infinite_memory.paths import CHECKOUT_CONFIG_FILE
from infinite_memory.platform_files import read_regular_text
from infinite_memory.redaction import hide, remember
from infinite_memory.settings import (
    BackupSettings,
    CaptureSettings,
    DaemonSettings,
    EmbeddingSettings,
    Form,
    HooksSettings,
    HttpSettings,
    ImportSettings,
    IndexSettings,
    LimitsSettings,
    LogSettings,
    McpSettings,
    ModelSettings,
    MongodbSettings,
    RecallSettings,
    RetentionSettings,
    ScopesSettings,
    SidecarSettings,
    TimeSettings,
)

PREFIX = "INFINITE_MEMORY_"


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, validated. ``origins`` says where non-default values come from: ``{"time.zone": "environment"}``.

    ``contracts`` has the contracts' own sections, which their specs define.
    """

    mongodb: MongodbSettings = dataclasses.field(default_factory=MongodbSettings)
    embedding: EmbeddingSettings = dataclasses.field(default_factory=EmbeddingSettings)
    scopes: ScopesSettings = dataclasses.field(default_factory=ScopesSettings)
    time: TimeSettings = dataclasses.field(default_factory=TimeSettings)
    recall: RecallSettings = dataclasses.field(default_factory=RecallSettings)
    limits: LimitsSettings = dataclasses.field(default_factory=LimitsSettings)
    sidecar: SidecarSettings = dataclasses.field(default_factory=SidecarSettings)
    index: IndexSettings = dataclasses.field(default_factory=IndexSettings)
    retention: RetentionSettings = dataclasses.field(default_factory=RetentionSettings)
    backup: BackupSettings = dataclasses.field(default_factory=BackupSettings)
    import_: ImportSettings = dataclasses.field(default_factory=ImportSettings)  # section ``import``, a Python keyword
    capture: CaptureSettings = dataclasses.field(default_factory=CaptureSettings)
    hooks: HooksSettings = dataclasses.field(default_factory=HooksSettings)
    daemon: DaemonSettings = dataclasses.field(default_factory=DaemonSettings)
    mcp: McpSettings = dataclasses.field(default_factory=McpSettings)
    http: HttpSettings = dataclasses.field(default_factory=HttpSettings)
    contracts: Mapping[str, Mapping[str, str | None]] = dataclasses.field(
        default_factory=lambda: _sections_of_contracts({})
    )
    model: ModelSettings = dataclasses.field(default_factory=ModelSettings)
    log: LogSettings = dataclasses.field(default_factory=LogSettings)
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def values(self) -> Iterator[tuple[str, Any]]:
        """Yield every setting's name (``section.name``) and value, in the order of the documentation.

        Includes secrets; use `KnownSetting.display` for values to be shown.
        """
        for name, setting in known_settings().items():
            if setting.section in self.contracts:
                yield name, self.contracts[setting.section][setting.name]
            else:
                yield name, getattr(getattr(self, _attribute(setting.section)), setting.name)


@dataclass(frozen=True, slots=True)
class KnownSetting:
    """The definition of one setting."""

    section: str
    name: str
    kind: Any
    default: Any
    about: str
    per_session: bool
    choices: tuple[str, ...]
    low: float | None
    high: float | None
    form: Form | None
    secret: bool

    def display(self, value: Any) -> Any:
        """Return *value* in a form that can be shown to anybody."""
        return hide(value) if self.secret and value is not None else value

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"{PREFIX}{self.section.upper()}__{self.name.upper()}"


@functools.cache
def known_settings() -> Mapping[str, KnownSetting]:
    """Return every setting, by its name ``section.name``."""
    sections = typing.get_type_hints(Config).items()
    settings = [setting for name, kind in sections for setting in _settings_in(name.rstrip("_"), kind)]
    return types.MappingProxyType({f"{setting.section}.{setting.name}": setting for setting in settings})


def _settings_in(section: str, kind: Any) -> Iterator[KnownSetting]:
    if section == "contracts":
        for spec in list_specs():
            for own in spec.settings:
                yield KnownSetting(
                    spec.section, own.name, str | None, own.default, own.about, True, (), None, None, None, False
                )  # fmt: skip
    elif dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            meta = field.metadata
            yield KnownSetting(
                section, field.name, hints[field.name], field.default, meta["about"], meta.get("per_session", False),
                meta.get("choices", ()), meta.get("low"), meta.get("high"), meta.get("form"),
                meta.get("secret", False),
            )  # fmt: skip


def load_config(
    file: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, str] | None = None,
    *,
    checkout_file: Path = CHECKOUT_CONFIG_FILE,
) -> Config:
    """Load and validate all settings.

    Args:
        file: The user's TOML file; need not exist.
        environ: Variables ``INFINITE_MEMORY_<SECTION>__<NAME>``; others are ignored.
        flags: ``{"section.name": text}`` from the command line.
        checkout_file: The TOML file of a checkout, which all others override; need not exist.

    Raises:
        ConfigError: a setting is unknown or has an invalid value.
    """
    by_name = known_settings()
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, raw_values in (
        (str(checkout_file), _read_file(checkout_file)),
        (str(file), _read_file(file)),
        ("environment", _read_environment(environ)),
        ("flag", dict(flags or {})),
    ):
        for name, raw in raw_values.items():
            if name in by_name and by_name[name].secret:
                remember(raw)
        for name, raw in raw_values.items():
            if name not in by_name:
                raise ConfigError(f"{origin}: there is no setting {name}{_nearest(name, by_name)}")
            values[name] = _check(by_name[name], raw, origin)
            origins[name] = origin
    sections = {
        section: kind(
            **{
                full_name.split(".")[1]: value
                for full_name, value in values.items()
                if full_name.startswith(section + ".")
            }
        )
        for section, kind in _sections().items()
    }
    return Config(
        **{_attribute(section): section_config for section, section_config in sections.items()},
        contracts=_sections_of_contracts(values),
        origins=origins,
    )


def _sections_of_contracts(values: Mapping[str, Any]) -> dict[str, dict[str, str | None]]:
    return {
        spec.section: {
            setting.name: values.get(f"{spec.section}.{setting.name}", setting.default) for setting in spec.settings
        }
        for spec in list_specs()
        if spec.settings
    }


def _sections() -> dict[str, Any]:
    hints = typing.get_type_hints(Config)
    return {name.rstrip("_"): kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}


def _attribute(section: str) -> str:
    """Return the name of a section's attribute of `Config`: its own, unless that is a Python keyword."""
    return f"{section}_" if keyword.iskeyword(section) else section


def _nearest(name: str, settings: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, list(settings), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _read_file(file: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(read_regular_text(file))
    except FileNotFoundError:
        if file.is_symlink():  # without its settings another database would be opened, and backups would not be locked
            raise ConfigError(f"{file}: it is a link to {file.readlink()}, which is not there") from None
        return {}
    except OSError as exc:
        raise ConfigError(f"{file}: {exc.strerror or exc}") from exc
    except ValueError as exc:  # not UTF-8, not TOML, a number with thousands of digits
        raise ConfigError(f"{file}: {exc}") from exc
    values: dict[str, Any] = {}
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: there is no setting {section}; settings stand under a [section]")
        values |= {f"{section}.{name}": value for name, value in table.items()}
    return values


def _read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    values = {}
    for variable, value in environ.items():
        if variable.startswith(PREFIX) and "__" in variable:
            section, _, name = variable.removeprefix(PREFIX).partition("__")
            if section != "TEST":  # the tests' own switches
                values[f"{section}.{name}".lower()] = value
    return values


def _has_utf8(value: Any) -> bool:
    """True if a string can be encoded; undecodable bytes of the environment arrive as lone surrogates."""
    return not isinstance(value, str) or not any("\ud800" <= char <= "\udfff" for char in value)


def _check(setting: KnownSetting, raw: Any, origin: str) -> Any:
    def wrong(expected: str) -> ConfigError:
        return ConfigError(f"{origin}: {setting.section}.{setting.name} = {setting.display(raw)!r} is not {expected}")

    kinds = [kind for kind in typing.get_args(setting.kind) if kind is not types.NoneType] or [setting.kind]
    kind = kinds[0]
    if raw == "" and type(None) in typing.get_args(setting.kind):
        return None
    value = raw
    if kind is bool and isinstance(raw, str):
        value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(raw.casefold(), raw)
    elif kind in (int, float) and isinstance(raw, str):
        try:
            value = kind(raw)
        except ValueError:
            raise wrong("a number" if kind is float else "a whole number") from None
    elif kind is float and type(raw) is int:
        value = float(raw)
    if type(value) is not kind or (kind is float and not math.isfinite(value)) or not _has_utf8(value):
        raise wrong({bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind])
    if setting.choices and value not in setting.choices:
        raise wrong(f"one of {', '.join(setting.choices)}")
    if setting.form is not None and setting.form.pattern.fullmatch(value) is None:
        raise wrong(setting.form.expected)
    if setting.low is not None and cast("float", value) < setting.low:
        raise wrong(f"at least {setting.low:g}")
    if setting.high is not None and cast("float", value) > setting.high:
        raise wrong(f"at most {setting.high:g}")
    return value
