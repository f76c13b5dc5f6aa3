"""The plugin of Claude Code: written out of the package beside the client's settings, and turned on there.

The package holds the plugin as a marketplace of one plugin (`infinite_memory/claude_plugin`). `connect claude-code --plugin` writes a
copy into the client's folder in which the commands are absolute, because clients start processes with a PATH of their own, and names
that folder in the user's settings (``extraKnownMarketplaces``, ``enabledPlugins``). At its next start the client takes the plugin from
there: nothing is downloaded. The version carries a hash of the files, for a client takes a changed plugin only under another version.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.cli.config_edit import remove_json_entry, set_json_entry

Json = dict[str, Any]

NAME = "infinite-memory"
PLUGIN_ID = f"{NAME}@{NAME}"
FILES = Path(__file__).resolve().parent.parent / "claude_plugin"
MANIFEST = ".claude-plugin/plugin.json"
DIGEST_CHARS = 8


def plugin_folder(environ: Mapping[str, str], user: Path) -> Path:
    """Return where the plugin is written."""
    return claude_folder(environ, user) / NAME


def settings_file(environ: Mapping[str, str], user: Path) -> Path:
    """Return the user's settings of Claude Code."""
    return claude_folder(environ, user) / "settings.json"


def claude_folder(environ: Mapping[str, str], user: Path) -> Path:
    """Return the folder of Claude Code's settings."""
    return Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else user / ".claude"


def render_plugin(command: str, arguments: Sequence[str], server: Json, home: str | None) -> dict[str, str]:
    """Return the plugin's files by their path in its folder.

    Args:
        command: What starts this installation, with *arguments* in front of a command's own.
        server: The entry of the MCP server.
        home: The home of the memory where the user named one; hooks and commands are told of it.
    """
    named = ["--home", home] if home else []
    files = {}
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            files[path.relative_to(FILES).as_posix()] = path.read_text("utf-8")
    hooks = json.loads(files["hooks/hooks.json"])
    for groups in hooks["hooks"].values():
        for hook in (one for group in groups for one in group["hooks"]):
            hook["command"], hook["args"] = command, [*arguments, *hook["args"], *named]
    files["hooks/hooks.json"] = _written(hooks)
    files[".mcp.json"] = _written({"mcpServers": {NAME: server}})
    whole = shlex.join([command, *arguments, "capture"])
    for name in [name for name in files if name.startswith("commands/")]:
        text = files[name].replace(f"Bash({NAME} capture *)", f"Bash({whole} *)")
        files[name] = text.replace(
            f"`{NAME} capture pause`", f"`{shlex.join([command, *arguments, 'capture', 'pause', *named])}`"
        )
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARS]
    manifest = json.loads(files[MANIFEST])
    files[MANIFEST] = _written({"name": manifest.pop("name"), "version": f"{__version__}+{digest}", **manifest})
    return files


def write_plugin(folder: Path, files: Mapping[str, str]) -> None:
    """Write the plugin's files, and remove those of an earlier version.

    Raises:
        OSError: one of them cannot be written.
    """
    known = _known(folder)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.tmp")
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)
    for path in known:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink(missing_ok=True)


def remove_plugin(folder: Path) -> bool:
    """Remove the plugin's files, and its folders where nothing else is in them; True if there was any.

    Raises:
        OSError: one of them cannot be removed.
    """
    paths = _known(folder)
    for path in paths:
        path.unlink(missing_ok=True)
    for parent in (*sorted({path.parent for path in paths} - {folder}), folder):
        with contextlib.suppress(OSError):  # something else is in it
            parent.rmdir()
    return bool(paths)


def has_plugin(folder: Path) -> bool:
    """True if the plugin was written there."""
    return bool(_known(folder))


def enabled(settings: str, folder: Path) -> str:
    """Return the client's settings with the plugin turned on.

    Raises:
        ValueError: the settings are no JSON object, or cannot be changed safely.
    """
    marketplace = {"source": {"source": "directory", "path": str(folder)}, "autoUpdate": True}
    settings = set_json_entry(settings, "extraKnownMarketplaces", NAME, marketplace)
    return set_json_entry(settings, "enabledPlugins", PLUGIN_ID, True)


def disabled(settings: str) -> str:
    """Return the client's settings without the plugin; as they are where it is not in them. Errors as in `enabled`."""
    settings = remove_json_entry(settings, "enabledPlugins", PLUGIN_ID)
    return remove_json_entry(settings, "extraKnownMarketplaces", NAME)


def _known(folder: Path) -> list[Path]:
    """List the files in *folder* that a plugin of ours consists of; none where the manifest is not ours."""
    try:
        is_ours = json.loads((folder / MANIFEST).read_text("utf-8")).get("name") == NAME
    except (OSError, ValueError, AttributeError):
        return []
    names = [path for pattern in ("hooks/hooks.json", "commands/*.md", ".mcp.json") for path in folder.glob(pattern)]
    return [*names, folder / ".claude-plugin" / "marketplace.json", folder / MANIFEST] if is_ours else []


def _written(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
