"""Fetching the official file: a server on this machine speaks the hub's protocol, the product fetches from it."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory.embedding import verification
from infinite_memory.embedding.hub import snapshot
from infinite_memory.embedding.manifest import Manifest
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.errors import EmbeddingError

REVISION = "0" * 40
BROKEN_BYTES = 1_000_000
PREFIX = "/sentence-transformers/all-MiniLM-L6-v2/resolve/"
FETCH = """\
import json, sys
from pathlib import Path
from infinite_memory.embedding import hub
from infinite_memory.errors import EmbeddingError
files, revision, target, work = sys.argv[1:]
try:
    hub.fetch_official("all-MiniLM-L6-v2", Path(target), Path(work), json.loads(files), revision)
except EmbeddingError as exc:
    sys.exit(str(exc))
"""


@pytest.fixture(scope="module")
def published(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the makers publish: the model without pooling, and its tokenizer."""
    import torch
    from sentence_transformers import SentenceTransformer

    folder = tmp_path_factory.mktemp("published")
    (folder / "onnx").mkdir()
    for name in ("tokenizer.json", "config.json"):
        (folder / name).write_bytes((weights / name).read_bytes())
    transformer = SentenceTransformer(str(weights), device="cpu", model_kwargs={"attn_implementation": "eager"})[0]

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = transformer

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            answer = self.inner({"input_ids": input_ids, "attention_mask": attention_mask})
            vectors: torch.Tensor = answer["token_embeddings"]
            return vectors

    ids = torch.tensor([[101, 7929, 102], [101, 102, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    names = ["input_ids", "attention_mask"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Tokens().eval(), (ids, mask), str(folder / "onnx" / "model.onnx"),
            input_names=names, output_names=["last_hidden_state"],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in [*names, "last_hidden_state"]},
            opset_version=17, dynamo=False,
        )  # fmt: skip
    return folder


class Hub(http.server.ThreadingHTTPServer):
    """A hub on this machine that publishes the model; ``breaks`` answers break off after a million bytes."""

    def __init__(self, published: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.published, self.breaks = published, 0
        self.asked: list[tuple[str, str | None, str | None]] = []


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers for the hub, parts of files too."""

    server: Hub

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        path = self.server.published / self.path.removeprefix(PREFIX).partition("/")[2]
        part = self.headers.get("Range")
        self.server.asked.append((path.name, part, self.headers.get("Authorization")))
        if not self.path.startswith(PREFIX) or not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()[int(part[len("bytes=") : -1]) if part else 0 :]
        self.send_response(206 if part else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body and self.server.breaks and len(content) > BROKEN_BYTES:
            self.server.breaks -= 1
            content = content[:BROKEN_BYTES]
        if with_body:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(published: Path) -> Iterator[Hub]:
    """A hub that runs."""
    server = Hub(published)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def hub(server: Hub) -> str:
    """Its address."""
    return f"http://127.0.0.1:{server.server_address[1]}"


def checksums(published: Path) -> dict[str, str]:
    """What a version that knows the published files has pinned."""
    names = ("onnx/model.onnx", "tokenizer.json")
    return {name: hashlib.sha256((published / name).read_bytes()).hexdigest() for name in names}


def fetch(hub: str, folder: Path, files: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    """Fetch into ``model`` in a folder, as set-up does it."""
    environment = os.environ | {"HF_ENDPOINT": hub, "HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "0"} | more
    command = [sys.executable, "-c", FETCH, json.dumps(files), REVISION, str(folder / "model"), str(folder / "work")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_official_file_is_fetched_checked_and_pooled_here(hub: str, published: Path, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path, checksums(published))
    assert done.returncode == 0, done.stderr
    fetched = OnnxEmbedder(tmp_path / "model")
    assert fetched.space == "all-MiniLM-L6-v2/384/fp32"
    assert Manifest.load(tmp_path / "model").pooling == "mean"
    assert verification.check_fidelity(fetched).is_faithful


def test_a_file_with_another_checksum_is_refused(hub: str, published: Path, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path, checksums(published) | {"tokenizer.json": "0" * 64})
    assert done.returncode == 1
    assert "the hub's tokenizer.json is not the file that this version knows" in done.stderr
    assert not (tmp_path / "model").exists()


def test_a_file_that_is_not_the_model_is_refused_whatever_its_checksum(
    hub: str, published: Path, tmp_path: Path
) -> None:
    tokenizer = published / "tokenizer.json"
    whole = tokenizer.read_bytes()
    tokenizer.write_bytes(whole.replace(b'"lowercase":true', b'"lowercase":false'))
    try:
        done = fetch(hub, tmp_path, checksums(published))
    finally:
        tokenizer.write_bytes(whole)
    assert done.returncode == 1
    assert "not the model that this version knows" in done.stderr
    assert not (tmp_path / "model").exists()


def test_a_hub_that_does_not_answer_is_said_at_once(published: Path, tmp_path: Path) -> None:
    done = fetch("http://127.0.0.1:9", tmp_path, checksums(published))
    assert done.returncode == 1
    assert "the model hub cannot be reached" in done.stderr


def test_a_file_goes_on_where_its_connection_broke(hub: str, server: Hub, published: Path, tmp_path: Path) -> None:
    server.breaks = 2
    done = fetch(hub, tmp_path, checksums(published), HF_TOKEN="hf_mine")
    assert done.returncode == 0, done.stderr
    asked = [(part, token) for name, part, token in server.asked if name == "model.onnx"]
    assert asked == [
        (part, "Bearer hf_mine") for part in (None, f"bytes={BROKEN_BYTES}-", f"bytes={2 * BROKEN_BYTES}-")
    ]


def test_a_connection_that_always_breaks_is_given_up(hub: str, server: Hub, published: Path, tmp_path: Path) -> None:
    server.breaks = 1000
    done = fetch(hub, tmp_path, checksums(published))
    assert done.returncode == 1
    assert "the model hub did not give onnx/model.onnx: the connection broke after 4,000,000 bytes" in done.stderr
    assert not (tmp_path / "model").exists()


def test_a_model_of_which_only_the_name_is_known_needs_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(EmbeddingError, match="`infinite-memory setup --model nobody/nothing`"):
        snapshot("nobody/nothing")
