"""Writes config/infinite-memory.toml from the settings that the program knows; a test holds the file to it."""

from __future__ import annotations

import json
from pathlib import Path

from infinite_memory.config import known_settings

FILE = Path(__file__).resolve().parent.parent / "config" / "infinite-memory.toml"
HEAD = """\
# Every setting with its default. A checkout reads this file: take the "# " from what you want to change. config.toml in your
# home folder (`infinite-memory config` says where that is) wins over it, the environment over both, as
# INFINITE_MEMORY_<SECTION>__<NAME>, and a flag (--set section.name=value) over all. A key or value that is not known is refused at start.
# (session) marks what belongs to one client and travels with it; the others are the daemon's.
# Made by scripts/make_config_docs.py.
"""


def document() -> str:
    """Give the whole file."""
    lines, section = [HEAD], ""
    for one in known_settings().values():
        if one.section != section:
            section = one.section
            lines.append(f"\n[{section}]\n")
        choices = f" One of: {', '.join(one.choices)}." if one.choices else ""
        session = " (session)" if one.per_session else ""
        value = "" if one.default is None else json.dumps(one.default)
        lines.append(f"# {one.about}.{choices}{session}\n# {one.name} = {value or '...'}\n")
    return "".join(lines)


if __name__ == "__main__":
    FILE.write_text(document(), "utf-8")
