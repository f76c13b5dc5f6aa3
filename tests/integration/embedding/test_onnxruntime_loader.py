"""Nothing leaves the machine: the library that runs the model keeps no record of its use, and sends none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_running_the_model_leaves_nothing_in_the_users_folders(tmp_path: Path) -> None:
    """onnxruntime 1.32 writes ~/.cache/Microsoft/DeveloperTools and calls home, unless it is told not to."""
    program = (
        "from infinite_memory.embedding.factory import open_embedder\n"
        "one = open_embedder('all-MiniLM-L6-v2'); one.load(); one.embed(['a quiet evening'])\n"
        "import gc; del one; gc.collect()\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environ | {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
