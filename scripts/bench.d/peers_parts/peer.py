"""The peer: mcp-memory-service, in an environment of its own, with our model and the same memories as ours.

Why Debian's interpreter: the peer's SQLite must load extensions, which many builds of Python leave out. Why our model: the peer
would download the same one, and a benchmark is to run without a network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scale_parts.homes import FIRST, MODEL, Corpus

from infinite_memory.embedding.manifest import TOKENIZER_FILE, Manifest, get_folder

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

PACKAGE = "mcp-memory-service[sqlite]==12.4.0"
NAME = PACKAGE.replace("[sqlite]==", " ")
PYTHON = "/usr/bin/python3"
SAME = 0.999  # cosine of two vectors that one model made of one text
_HAS = "import sqlite3, ensurepip; sqlite3.connect(':memory:').enable_load_extension(True)"


class Peer:
    """The peer with its environment in *cache* and its home in *folder*."""

    def __init__(self, cache: Path, folder: Path, python: str = PYTHON) -> None:
        self._python, self._environment, self.home = python, cache / "peer", folder / "peer"
        self._database = self.home / "memories.db"

    @property
    def command(self) -> list[str]:
        """What starts it as an MCP server."""
        return [str(self._environment / "bin" / "memory"), "server"]

    @property
    def environ(self) -> dict[str, str]:
        """Its environment: our model, no download, and no vectors from hashes."""
        return {
            **os.environ,
            "HOME": str(self.home),
            "MCP_MEMORY_BASE_DIR": str(self.home),
            "MCP_MEMORY_SQLITE_PATH": str(self._database),
            "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
            "MCP_MEMORY_USE_ONNX": "1",
            "MCP_MEMORY_ONNX_ALLOW_DOWNLOAD": "0",
            "MCP_MEMORY_ALLOW_HASH_EMBEDDINGS": "0",
        }

    def install(self) -> None:
        """Make its environment, once for a cache folder."""
        marker = self._environment / "installed"
        if marker.is_file() and marker.read_text() == PACKAGE:
            return
        if subprocess.run([self._python, "-c", _HAS], capture_output=True, check=False).returncode:
            raise SystemExit(
                f"{self._python} cannot make the peer's environment: it needs the venv module and a SQLite that loads extensions."
                " On Debian: apt-get install -y python3-venv"
            )
        shutil.rmtree(self._environment, ignore_errors=True)
        subprocess.run([self._python, "-m", "venv", self._environment], check=True)
        subprocess.run([self._environment / "bin" / "pip", "install", "--quiet", PACKAGE], check=True)
        marker.write_text(PACKAGE)

    def give_model(self, *, padded: bool) -> None:
        """Put our model where the peer keeps its own; *padded* leaves the tokenizer's padding to 128 tokens as it is shipped."""
        source = get_folder(MODEL)
        model = source / Manifest.load(source).files["fp32"].name
        place = self.home / ".cache" / "mcp_memory" / "onnx_models" / "all-MiniLM-L6-v2" / "onnx"
        place.mkdir(parents=True)
        (place / "model.onnx").symlink_to(model)
        tokenizer = json.loads((source / TOKENIZER_FILE).read_text("utf-8"))
        if not padded:
            tokenizer |= {"padding": None, "truncation": tokenizer["truncation"] | {"max_length": 256}}
        (place / TOKENIZER_FILE).write_text(json.dumps(tokenizer), "utf-8")

    def fill(self, corpus: Corpus, count: int) -> None:
        """Write the first *count* memories into its SQLite file."""
        np.save(self.home / "vectors.npy", corpus.rows(0, count))
        with (self.home / "memories.jsonl").open("w", encoding="utf-8") as file:
            for number in range(count):
                one = {
                    "text": corpus.text(number),
                    "tags": corpus.tags(number),
                    "at": FIRST.timestamp() + 60 * number,
                }
                file.write(json.dumps(one) + "\n")
        with (self.home / "fill.log").open("wb") as log:
            self._inside("fill", str(self.home), stderr=log)

    def check_vector(self, text: str, expected: Vectors) -> None:
        """See that it embedded a stored text with the model; ends the run when it fell back to hashes."""
        found = json.loads(self._inside("vector", input=text.encode(), stderr=subprocess.DEVNULL))
        cosine = float(np.asarray(found, np.float32) @ expected) if found else 0.0
        if cosine < SAME:
            raise SystemExit(f"the peer does not use the model: cosine {cosine:.3f} to our vector of the same text")

    def _inside(self, *words: str, **more: Any) -> bytes:
        """Run a part of `inside_peer` with the peer's interpreter; gives what it printed."""
        command = [self._environment / "bin" / "python", Path(__file__).with_name("inside_peer.py"), *words]
        done = subprocess.run(command, env=self.environ, check=True, stdout=subprocess.PIPE, **more)
        return bytes(done.stdout)
