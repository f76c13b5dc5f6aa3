"""Edits a text in the user's editor, and keeps it in a file if it cannot be stored, so that no input is lost."""

from __future__ import annotations

import os
from pathlib import Path

from infinite_memory.errors import ConfigError
from infinite_memory.paths import find_home

UNSAVED = "unsaved-memory-"
"""Prefix of those files in the home."""


class UnsavedText:
    """A text that is not stored yet; if storing fails, `keep` writes it to a file in the home."""

    def __init__(self, memory_id: str, text: bytes) -> None:
        self._memory_id, self._text = memory_id, text

    def keep(self) -> str:
        """Write the text to a file, and return a sentence that says where, or why that failed."""
        name = "".join(letter for letter in self._memory_id if letter.isalnum())[:40]
        folder, number = find_home(os.environ).path, 1
        try:
            while True:
                file = folder / f"{UNSAVED}{name}{'' if number == 1 else f'-{number}'}.txt"
                try:
                    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                except FileExistsError:
                    number += 1
                    continue
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(self._text)
                return f"what you wrote is in {file}"
        except OSError as exc:
            return f"what you wrote could not be written into {folder} ({exc.strerror})"


def edit_text(memory_id: str, text: str) -> tuple[str, UnsavedText]:
    """Open a text in the user's editor, and return what they saved, as text and as an `UnsavedText`.

    Raises:
        ConfigError: the editor cannot be run, failed, or saved invalid UTF-8; the message names the file that keeps the text.
    """
    import shlex
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if os.name == "nt" else "vi")
    before = text.encode("utf-8", "surrogatepass") + b"\n"
    with tempfile.TemporaryDirectory(prefix="infinite-memory-") as folder:  # readable by its owner only
        file = Path(folder) / "memory.txt"
        file.write_bytes(before)
        try:
            code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
            saved = file.read_bytes()
        except (OSError, ValueError) as exc:
            raise ConfigError(f"the editor {editor!r} cannot be run: {exc}; set EDITOR to another") from exc
    unsaved = UnsavedText(memory_id, saved)
    if code:
        where = f"; {unsaved.keep()}" if saved != before else ""
        raise ConfigError(f"the editor {editor!r} ended with exit code {code}; nothing was changed{where}")
    try:
        return saved.decode().removesuffix("\n"), unsaved
    except UnicodeDecodeError as exc:
        raise ConfigError(f"the text that was saved is not UTF-8; nothing was changed; {unsaved.keep()}") from exc
