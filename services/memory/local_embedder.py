"""Texts to vectors: bge-small-en-v1.5, quantised to int8, on onnxruntime."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.memory.model import CURE, locate
from shared.errors import StartError

MODEL_NAME = "bge-small-en-v1.5-int8"
"""What the vectors of this model are marked with."""

SLUG = "bge_small_en_v1_5_int8"
"""The name as part of a file name."""

DIMENSIONS = 384
"""The length of a vector."""

MAX_TOKENS = 512
"""The model's window; what is longer is cut off."""

MAX_CHARACTERS = 16 * MAX_TOKENS
"""Cut before tokenising, so that a megabyte costs no more than the window: words have fewer letters."""

WORKERS = 2
"""Threads that embed a large batch."""

Vectors = NDArray[np.float32]


class LocalEmbedder:
    """The model, loaded from ``directory``; raises StartError with the cure if it is missing or broken.

    A vector depends on its text alone, whatever else is embedded at the same time: each text is a run of its
    own, because the int8 model scales its activations over the whole of a run (cosine .985 to 1 between the
    same text run alone and run with 7 others). Batches of 8 were 1.3 times faster at 35 tokens and no faster
    from 100 on. One session serves both threads: one session each was no faster (177 against 180 texts/s of
    25 words, 361 against 372 of 8, in a run in which one thread alone made 90 and 187), and takes 47 MB more.
    """

    model_name = MODEL_NAME
    slug = SLUG
    dimensions = DIMENSIONS

    def __init__(self, directory: Path) -> None:
        tokenizer, model = (
            locate(directory, f"bge_small_en/{name}") for name in ("tokenizer.json", "model.onnx")
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = False  # would keep what the longest text took, and is no faster
        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # both raise their own kinds, Exception itself among them
            raise StartError(f"The embedding model in {directory} is broken ({error})", CURE) from None
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="embed")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of the texts, one row each, in their order; an empty text has one too.

        CLS pooling, L2 norm, no prefix for queries, the first 512 tokens. Up to two texts are embedded in the
        caller's thread at once; more are shared out to two threads, longest first so that both end together:
        thus a query does not wait behind a batch.
        """
        result = np.empty((len(texts), DIMENSIONS), np.float32)
        if len(texts) <= WORKERS:
            for row, text in enumerate(texts):
                result[row] = self._run(text)
            return result
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        for row, vector in zip(order, self._pool.map(self._run, (texts[row] for row in order)), strict=True):
            result[row] = vector
        return result

    def close(self) -> None:
        """Stop the threads; what is being embedded is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, text: str) -> Vectors:
        ids = np.array([self._tokenizer.encode(text[:MAX_CHARACTERS]).ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(["last_hidden_state"], inputs)
        vector: Vectors = states[0, 0]
        return vector / np.float32(np.linalg.norm(vector))
