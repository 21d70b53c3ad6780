"""The embedder with the real model."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from services.memory.local_model import LocalEmbedder
from shared.errors import StartError
from tests.support.once import find_models


@pytest.fixture(scope="session")
def models() -> Path:
    """The model's files where the settings have them; fetched if they are missing."""
    return find_models()


@pytest.fixture(scope="session")
def embedder(models: Path) -> Iterator[LocalEmbedder]:
    loaded = LocalEmbedder(models)
    yield loaded
    loaded.close()


def test_vectors_are_unit_vectors_and_near_for_near_texts(embedder: LocalEmbedder) -> None:
    pays, meals, broker, empty = embedder.embed(
        ["Who pays for lunch?", "Meals at midday are covered by the company", "A message broker", ""]
    )
    assert pays.dtype == np.float32
    assert pays.shape == (384,)
    assert [float(np.linalg.norm(vector)) for vector in (pays, meals, broker, empty)] == pytest.approx(
        [1] * 4
    )
    assert float(pays @ meals) > 0.7
    assert float(pays @ broker) < 0.6


def test_a_vector_depends_on_its_text_alone(embedder: LocalEmbedder) -> None:
    texts = [f"{'word ' * (index * 7 % 40)}number {index}" for index in range(50)]
    together = embedder.embed(texts)
    assert all(
        np.array_equal(embedder.embed([text])[0], vector)
        for text, vector in zip(texts, together, strict=True)
    )


def test_long_texts_are_cut_and_none_give_none(embedder: LocalEmbedder) -> None:
    start = time.monotonic()
    huge, window = embedder.embed(["lease renewal " * 500_000, "lease renewal " * 300])
    assert np.array_equal(huge, window)
    assert time.monotonic() - start < 5
    assert embedder.embed([]).shape == (0, 384)


def test_a_broken_model_is_told_with_the_cure(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bge_small_en"
    folder.mkdir()
    (folder / "tokenizer.json").symlink_to(models / "bge_small_en/tokenizer.json")
    (folder / "model.onnx").write_bytes(b"half a model")
    with pytest.raises(
        StartError, match=r"is broken \(.*Fetch it with: python -m services\.memory\.local_model"
    ):
        LocalEmbedder(tmp_path)
