"""A re-ranker orders the best hits anew; one that is not there is said and changes nothing.

No cross-encoder's weights come with a package, so the one here is made on the spot: real layers, drawn weights. It knows nothing, and
shows all the same that its order is taken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from infinite_memory.embedding.reranker import Reranker
from infinite_memory.errors import EmbeddingError
from tests.store.lifecycle.conftest import Open

TEXTS = [
    "The ferry leaves from pier nine",
    "Rosa grows tomatoes",
    "The ferry to the island is late",
    "Pier nine is closed",
]


def make_cross_encoder(folder: Path, labels: int) -> Path:
    """Make a cross-encoder of a few thousand drawn weights that gives so many numbers for a pair."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = sorted({word for text in TEXTS for word in text.lower().split()} | set("abcdefghijklmnopqrstuvwxyz"))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]), "utf-8")
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=5 + len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=128, num_labels=labels, initializer_range=1.0,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("cross"), 1)


async def test_the_order_is_the_cross_encoders(open_memory: Open, cross_encoder: Path) -> None:
    query = "when does the ferry leave?"
    scores = Reranker(str(cross_encoder)).scores(query, TEXTS)
    wanted = [text for _, text in sorted(zip(scores, TEXTS, strict=True), reverse=True)]

    async with open_memory() as memory:
        for text in TEXTS:
            await memory.store(text)
        plain = (await memory.ok("retrieve_memory", query=query))["results"]
        assert [hit["text"] for hit in plain] != wanted, "else this test would show nothing"
    async with open_memory(flags={"recall.reranker": str(cross_encoder)}) as memory:
        for mode in ("hybrid", "semantic"):
            found = await memory.ok("retrieve_memory", query=query, mode=mode)
            assert [hit["text"] for hit in found["results"]] == wanted
            sure = [hit["confidence"] for hit in found["results"]]
            assert sure == sorted(sure, reverse=True)
            assert mode != "hybrid" or sure == [hit["confidence"] for hit in plain]
            assert "note" not in found


async def test_a_reranker_that_is_not_there_is_said_and_changes_nothing(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory() as memory:
        for text in TEXTS:
            await memory.store(text)
        plain = (await memory.ok("retrieve_memory", query="ferry"))["results"]
    async with open_memory(flags={"recall.reranker": str(tmp_path / "none")}) as memory:
        found = await memory.ok("retrieve_memory", query="ferry")
        assert [hit["memory_id"] for hit in found["results"]] == [hit["memory_id"] for hit in plain]
        assert "in the order before re-ranking" in found["note"]


def test_a_model_that_gives_several_numbers_for_a_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="more than one number"):
        Reranker(str(make_cross_encoder(tmp_path, 3))).scores("a", ["b"])


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="not on this machine"):
        Reranker(str(tmp_path)).scores("a", ["b"])
