"""Where each MCP client keeps its servers, and the hints to print after ours was added or removed.

Locations are computed without checking whether they exist, so this works for any platform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infinite_memory.cli import client_hooks
from infinite_memory.errors import ConfigError

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "codex", "gemini", "windsurf")


_LOOK_FIRST = """It tells Claude by itself to look into the memory. So that Claude does so more often, add to Settings, Profile:
  Before you answer anything that may depend on earlier conversations, search my memory with retrieve_memory.
  Store facts, preferences and decisions that will matter later, and say so."""
_NO_LONGER = "If you added lines on retrieve_memory and what to store to Settings, Profile, take them out again."


@dataclass(frozen=True, slots=True)
class Target:
    """A client's server file and display name. ``key`` is the member of the file that holds the servers."""

    title: str
    file: Path
    key: str
    restart: str
    hint: str = ""  # hint after connecting
    farewell: str = ""  # hint after removing
    is_toml: bool = False
    needs_type: bool = False


def find_target(client: str, environ: Mapping[str, str], platform: str, user: Path) -> Target:
    """Return where *client* keeps its servers on *platform* (as in `sys.platform`)."""
    settings = _settings_folder(environ, platform, user)
    match client:
        case "claude-desktop":
            file = settings / "Claude" / "claude_desktop_config.json"
            restart = "Quit Claude Desktop and start it again."
            return Target("Claude Desktop", file, "mcpServers", restart, hint=_LOOK_FIRST, farewell=_NO_LONGER)
        case "claude-code":
            folder = Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else user
            return Target(
                "Claude Code",
                folder / ".claude.json",
                "mcpServers",
                "Start a new Claude Code session.",
                needs_type=True,
            )
        case "cursor":
            return Target(
                "Cursor",
                user / ".cursor" / "mcp.json",
                "mcpServers",
                "Restart Cursor, or switch the server on in its settings.",
            )
        case "vscode":
            file = _vscode_folder(environ, settings) / "User" / "mcp.json"
            return Target(
                "VS Code", file, "servers", 'Run "MCP: List Servers" in VS Code and start it.', needs_type=True
            )
        case "codex":
            folder = Path(environ["CODEX_HOME"]) if environ.get("CODEX_HOME") else user / ".codex"
            return Target("Codex", folder / "config.toml", "mcp_servers", "Start a new Codex session.", is_toml=True)
        case "gemini":
            file = client_hooks.gemini_folder(environ, user) / "settings.json"
            return Target("Gemini CLI", file, "mcpServers", "Start a new Gemini CLI session.")
        case "windsurf":
            file = user / ".codeium" / "windsurf" / "mcp_config.json"
            return Target("Windsurf", file, "mcpServers", "Press refresh in Windsurf's MCP settings, or restart it.")
    raise ConfigError(f"{client} is not a client that is known here; known: {', '.join(CLIENTS)}")


def _vscode_folder(environ: Mapping[str, str], settings: Path) -> Path:
    if environ.get("VSCODE_PORTABLE"):
        return Path(environ["VSCODE_PORTABLE"]) / "user-data"
    return (Path(environ["VSCODE_APPDATA"]) if environ.get("VSCODE_APPDATA") else settings) / "Code"


def _settings_folder(environ: Mapping[str, str], platform: str, user: Path) -> Path:
    if platform == "darwin":
        return user / "Library" / "Application Support"
    if platform.startswith("win"):
        return Path(environ["APPDATA"]) if environ.get("APPDATA") else user / "AppData" / "Roaming"
    return Path(environ["XDG_CONFIG_HOME"]) if environ.get("XDG_CONFIG_HOME") else user / ".config"
