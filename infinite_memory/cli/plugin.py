"""The Claude Code plugin: copied from the package to the client's settings folder, and turned on there.

The package holds the plugin as a marketplace of one plugin (`infinite_memory/claude_plugin`). `connect claude-code --plugin` writes a
copy with absolute commands to the client's folder, because clients start processes with their own PATH, and registers that folder
in the user's settings (``extraKnownMarketplaces``, ``enabledPlugins``). At its next start the client installs the plugin from there:
nothing is downloaded. The version contains a hash of the files, because a client updates a plugin only if its version changes; the
manifest, which holds it, is written last. Only files with those names are ever written or removed, and only in the folder itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.cli.config_edit import find_entry, remove_json_entry, set_json_entry
from infinite_memory.errors import ConfigError
from infinite_memory.platform_files import make_folder

Json = dict[str, Any]

NAME = "infinite-memory"
PLUGIN_ID = f"{NAME}@{NAME}"
FILES = Path(__file__).resolve().parent.parent / "claude_plugin"
MANIFEST = ".claude-plugin/plugin.json"
MARKETPLACE = ".claude-plugin/marketplace.json"
SERVERS = ".mcp.json"
FORMER_FILES: tuple[str, ...] = ()  # files shipped by earlier versions only
DIGEST_CHARS = 8


def plugin_folder(environ: Mapping[str, str], user: Path) -> Path:
    """Return the folder that the plugin is written to."""
    return claude_folder(environ, user) / NAME


def settings_file(environ: Mapping[str, str], user: Path) -> Path:
    """Return the user's settings file of Claude Code."""
    return claude_folder(environ, user) / "settings.json"


def claude_folder(environ: Mapping[str, str], user: Path) -> Path:
    """Return the folder of Claude Code's settings."""
    return Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else user / ".claude"


def render_plugin(
    command: str, arguments: Sequence[str], hook_command: Sequence[str], server: Json, home: str | None
) -> dict[str, str]:
    """Return the plugin's files by their path in its folder.

    Args:
        command: The command of this installation; *arguments* precede a command's own.
        hook_command: The command of a hook, which ``hook EVENT`` follows.
        server: The entry of the MCP server.
        home: The home of the memory, if the user named one; it is passed to hooks and commands.
    """
    named = ["--home", home] if home else []
    files = {name: (FILES / name).read_text("utf-8") for name in _shipped()}
    hooks = json.loads(files["hooks/hooks.json"])
    for groups in hooks["hooks"].values():
        for hook in (handler for group in groups for handler in group["hooks"]):
            hook["command"], hook["args"] = hook_command[0], [*hook_command[1:], *hook["args"], *named]
    files["hooks/hooks.json"] = _written(hooks)
    files[SERVERS] = _written({"mcpServers": {NAME: server}})
    command_line = shlex.join([command, *arguments, "capture"])
    for name in [name for name in files if name.startswith("commands/")]:
        text = files[name].replace(f"Bash({NAME} capture *)", f"Bash({command_line} *)")
        files[name] = text.replace(
            f"`{NAME} capture pause`", f"`{shlex.join([command, *arguments, 'capture', 'pause', *named])}`"
        )
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARS]
    manifest = json.loads(files[MANIFEST])
    files[MANIFEST] = _written({"name": manifest.pop("name"), "version": f"{__version__}+{digest}", **manifest})
    return files


def check_folder(folder: Path) -> None:
    """Raise unless the plugin may be written to *folder*.

    Raises:
        ConfigError: the folder has foreign files and no plugin of ours, or it or a plugin folder in it is a symbolic link.
    """
    for directory in (folder, *_folders(folder)):
        if directory.is_symlink():
            raise ConfigError(
                f"{directory} is a link to a folder elsewhere, where nothing is written; nothing was changed"
            )
    begun = {_beside(folder / name) for name in _shipped()}
    try:
        has_files = any((path.is_symlink() or not path.is_dir()) and path not in begun for path in folder.rglob("*"))
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be read: {exc.strerror or exc}; nothing was changed") from None
    if has_files and not _is_ours(folder):
        raise ConfigError(f"{folder} holds files and is no plugin of ours: move it away; nothing was changed")


def read_server(folder: Path) -> Any:
    """Return the MCP server's entry in the installed plugin; None if there is none.

    Raises:
        OSError: the file cannot be read.
        ValueError: it cannot be parsed.
    """
    if not has_plugin(folder):
        return None
    try:
        text = (folder / SERVERS).read_text("utf-8")
    except FileNotFoundError:
        return None
    return find_entry(text, "mcpServers", NAME, is_toml=False)


def write_plugin(folder: Path, files: Mapping[str, str]) -> None:
    """Write the plugin's files, and remove those of an earlier version. The server's ``env`` may hold keys, so files are private.

    Raises:
        ConfigError: the folder is not ours (`check_folder`).
        OSError: a file cannot be written.
    """
    check_folder(folder)
    try:
        _make_folders(folder)
        for name in (MARKETPLACE, *(file for file in files if file not in (MARKETPLACE, MANIFEST))):
            _write(folder / name, files[name])
        for name in FORMER_FILES:
            (folder / name).unlink(missing_ok=True)
        _write(folder / MANIFEST, files[MANIFEST])
    except OSError:
        _remove_empty([*_folders(folder), folder])
        raise


def _make_folders(folder: Path) -> None:
    """Create the plugin's folders, private whatever the umask: the client runs the commands of its hooks."""
    make_folder(folder.parent)
    for directory in (folder, *sorted({(folder / name).parent for name in _shipped()} - {folder})):
        directory.mkdir(mode=0o700, exist_ok=True)
        mode = directory.stat().st_mode
        if os.name == "posix" and mode & 0o022:  # created by an earlier version
            directory.chmod(mode & 0o7755)


def _write(path: Path, text: str) -> None:
    temporary = _beside(path)
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    # The user's part of an entry may contain a lone surrogate, which JSON can escape but no encoding can represent.
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def remove_plugin(folder: Path) -> bool:
    """Remove the plugin's files, and its folders if they are empty then; True if there were any.

    Raises:
        OSError: a file cannot be removed.
    """
    paths = _list_known(folder)
    for path in paths:
        path.unlink(missing_ok=True)
    _remove_empty([*sorted({path.parent for path in paths} - {folder}), folder])
    return bool(paths)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()


def has_plugin(folder: Path) -> bool:
    """True if the plugin is installed in *folder*."""
    return bool(_list_known(folder))


def explain_start(folder: Path) -> str:
    """Return when the plugin takes effect: the client reads its settings in one session and installs for the next (seen with 2.1.197)."""
    return (
        "Claude Code takes the plugin in with its next session, and runs it from the one after that. To have it in the next one:\n"
        f"  claude plugin marketplace add {shlex.quote(str(folder))}\n"
        f"  claude plugin install {PLUGIN_ID}"
    )


def enabled(settings: str, folder: Path) -> str:
    """Return the client's settings with the plugin turned on.

    Raises:
        ValueError: the settings are not a JSON object, or cannot be changed safely.
    """
    marketplace = {"source": {"source": "directory", "path": str(folder)}, "autoUpdate": True}
    settings = set_json_entry(settings, "extraKnownMarketplaces", NAME, marketplace)
    return set_json_entry(settings, "enabledPlugins", PLUGIN_ID, True)


def disabled(settings: str) -> str:
    """Return the client's settings without the plugin, unchanged if they do not have it. Errors as in `enabled`."""
    settings = remove_json_entry(settings, "enabledPlugins", PLUGIN_ID)
    return remove_json_entry(settings, "extraKnownMarketplaces", NAME)


def _shipped() -> list[str]:
    """Return the plugin's files in the package, as paths in its folder."""
    return sorted(path.relative_to(FILES).as_posix() for path in FILES.rglob("*") if path.is_file())


def _folders(folder: Path) -> list[Path]:
    return sorted({(folder / name).parent for name in (*_shipped(), *FORMER_FILES)} - {folder})


def _is_ours(folder: Path) -> bool:
    """True if the manifest in *folder* is ours, or the marketplace file, which is written first and may be all of an interrupted run."""
    for name in (MANIFEST, MARKETPLACE):
        try:
            if json.loads((folder / name).read_text("utf-8")).get("name") == NAME:
                return True
        except (OSError, ValueError, AttributeError):
            continue
    return False


def _list_known(folder: Path) -> list[Path]:
    """Return the plugin's files in *folder*, the manifest last; none if it is not ours or a symbolic link."""
    if folder.is_symlink() or (folder / MANIFEST).parent.is_symlink() or not _is_ours(folder):
        return []
    names = [
        *FORMER_FILES,
        *(name for name in _shipped() if name not in (MANIFEST, MARKETPLACE)),
        MARKETPLACE,
        MANIFEST,
    ]
    written = [folder / name for name in names if not (folder / name).parent.is_symlink()]
    paths = [*map(_beside, written), *written]  # a killed run leaves one of the temporary files
    return [path for path in paths if path.is_symlink() or path.is_file()]


def _written(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
