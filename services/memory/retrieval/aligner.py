"""Which words of a question a passage comes near to: answerai-colbert-small-v1 in int8 on onnxruntime."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from services.memory.retrieval.reranker import MAX_CHARACTERS, WORKERS, open_model

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

    from services.memory.retrieval.vectors import Numbers

ASKED, TOLD = 1, 2
"""The tokens behind the first one by which the model tells a question from a passage."""


class _Encoded(NamedTuple):
    """The words of a text in lower case by their places, the place that each token is part of (None: of no
    word), and the unit vectors of the tokens.
    """

    words: dict[int, str]
    places: list[int | None]
    vectors: "Numbers"


class Aligner:
    """The model, loaded from ``directory`` when it is first used: that takes 0.2 s and 60 MB.

    The vectors compared are those before the model's last projection, which the file does not have.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._model: tuple[Tokenizer, onnxruntime.InferenceSession] | None = None
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="align")

    def align(self, question: str, passages: Sequence[str]) -> list[dict[str, float]]:
        """For each passage how near it comes to each word of the question: the best cosine of its tokens with
        those of the word. Words are in lower case; of one that occurs twice the last counts.

        Raises StartError with the cure if the model is missing or broken.
        """
        with self._lock:
            self._model = self._model or open_model(self._directory, "colbert")
        asked = self._encode(question, ASKED)
        return list(self._pool.map(lambda passage: _compare(asked, self._encode(passage, TOLD)), passages))

    def close(self) -> None:
        """Stop the threads; what is being read is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _encode(self, text: str, kind: int) -> _Encoded:
        assert self._model is not None
        tokenizer, session = self._model
        text = text[:MAX_CHARACTERS]
        encoded = tokenizer.encode(text)
        ids = np.array([[encoded.ids[0], kind, *encoded.ids[1:]]], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(["last_hidden_state"], inputs)
        vectors: Numbers = states[0] / np.linalg.norm(states[0], axis=1, keepdims=True)
        places = encoded.word_ids
        words: dict[int, str] = {}
        for place, (start, end) in zip(places, encoded.offsets, strict=True):
            if place is not None:
                words[place] = words.get(place, "") + text[start:end].lower()
        return _Encoded(words, [places[0], None, *places[1:]], vectors)


def _compare(asked: _Encoded, told: _Encoded) -> dict[str, float]:
    best = (asked.vectors @ told.vectors.T).max(axis=1).tolist()
    found: dict[str, float] = {}
    for place, word in asked.words.items():
        if word.isalnum():
            near = [best[token] for token, part in enumerate(asked.places) if part == place]
            found[word] = round(sum(near) / len(near), 4)
    return found
