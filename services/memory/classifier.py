"""What something is, of a few things it can be: ``memory.classify``, by models fitted to examples.

Each is a file of the folder ``weights`` in ONNX, run on the runtime of the embedding model. It scores rows by
``features``, ``vectors``, or both, and says of itself what they are (``Description``). ``make weights`` fits
all of them (docs/classifier.md).
"""

import functools
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import onnxruntime

from shared.errors import ActionError, BusError, ModelError, StartError
from shared.llm.protocol import Message
from shared.log import logger
from shared.memory import ClassifyQuery
from shared.reasoning.model import ModelSession
from shared.text.display import quote

if TYPE_CHECKING:
    from services.memory.embedding import Embedder
    from services.memory.local_model import LocalEmbedder

FOLDER = Path(__file__).with_name("weights")
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.onnx")))
MAX_ROWS = 1_000  # of one request: a long answer has 40, and 20,000 numbers a row would still take 80 MB
KEPT = 256  # vectors of texts that were classified last: what follows another message asks twice for its own

Numbers = npt.NDArray[np.float32]


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of itself, in its metadata.

    ``labels`` are what can be; ``features`` the names of the columns, or ``buckets`` the number of columns
    to which any names are hashed. ``model`` is whose vectors of texts it takes, none if empty. ``fitted_to``
    tells the examples that it was fitted to from others.
    """

    labels: tuple[str, ...]
    features: tuple[str, ...] = ()
    buckets: int = 0
    model: str = ""
    fitted_to: str = ""


class Classifier:
    """The file ``path``. Its ``score`` may be called from several threads."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = False
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        told = self._session.get_modelmeta().custom_metadata_map["description"]
        self.description = msgspec.json.decode(told, type=Description)
        self._places = {name: place for place, name in enumerate(self.description.features)}

    def score(
        self,
        features: Numbers | None = None,
        vectors: Numbers | None = None,
        states: Numbers | None = None,
    ) -> Numbers:
        """The score of each label, a row each; ``states`` are the rows of the tokens of each."""
        given = {"features": features, "vectors": vectors, "states": states}
        scores: Numbers
        (scores,) = self._session.run(
            ["scores"], {name: rows for name, rows in given.items() if rows is not None}
        )
        return scores

    def arrange(self, rows: Sequence[Mapping[str, float]]) -> Numbers:
        """Named features as columns: 0 where none is named; names that were not fitted count nothing."""
        told = self.description
        found = np.zeros((len(rows), told.buckets or len(told.features)), np.float32)
        for place, row in enumerate(rows):
            for name, value in row.items():
                if told.buckets:
                    found[place, zlib.crc32(name.encode()) % told.buckets] += value
                elif name in self._places:
                    found[place, self._places[name]] = value
        return found


@functools.cache
def open_classifier(name: str) -> Classifier:
    """The classifier of that name, read when it is first used; raises ActionError if there is none."""
    if name not in NAMES:
        raise ActionError(f"There is no classifier {name[:60]!r}", f"There are {', '.join(NAMES)}")
    return Classifier(FOLDER / f"{name}.onnx")


class Classifiers:
    """All of them, with the vectors that they take: of ``embedder``, or if that is another model than they
    were fitted to, of Mailroom's own, which is then loaded beside it (60 MB) from ``models``.
    """

    def __init__(self, embedder: "Embedder", models: Path) -> None:
        self._embedder: Embedder = embedder
        self._models = models
        self._own: LocalEmbedder | None = None
        self._kept: dict[str, Numbers] = {}

    def classify(self, query: ClassifyQuery) -> list[dict[str, float]]:
        """The scores of each row by label, as ``Memory.classify`` describes; raises ActionError."""
        classifier = open_classifier(query.classifier)
        told = classifier.description
        takes = ["texts"] * bool(told.model) + ["features"] * bool(told.features or told.buckets)
        given = [name for name in ("texts", "features") if getattr(query, name)]
        rows = len(query.features) or len(query.texts)
        if takes != given or rows > MAX_ROWS or len(query.texts) not in {0, 1, rows}:
            raise ActionError(
                f"{query.classifier} cannot read {len(query.texts)} texts and {len(query.features)} features",
                f"Give {' and '.join(takes)}: as many of both, or one text, and at most {MAX_ROWS:,}",
            )
        vectors = self.embed(query.texts, told.model) if query.texts else None
        if vectors is not None and len(vectors) < rows:
            vectors = vectors.repeat(rows, axis=0)
        features = classifier.arrange(query.features) if query.features else None
        scores = classifier.score(features, vectors).tolist()
        return [dict(zip(told.labels, row, strict=True)) for row in scores]

    def score_vectors(self, name: str, texts: Sequence[str], vectors: Numbers) -> Numbers:
        """The scores of texts with the vectors that memory has of them, a row each."""
        classifier = open_classifier(name)
        if self._embedder.model_name != classifier.description.model:
            vectors = self.embed(texts, classifier.description.model)
        return classifier.score(vectors=vectors)

    def embed(self, texts: Sequence[str], model: str) -> Numbers:
        """The vectors of texts by ``model``, the embedder's or Mailroom's own; raises ActionError."""
        kept = self._kept if len(self._kept) < KEPT else {}
        if missing := [text for text in dict.fromkeys(texts) if text not in kept]:
            embedder = self._embedder if self._embedder.model_name == model else self._open_own()
            kept = {**kept, **dict(zip(missing, embedder.embed(missing), strict=True))}
            self._kept = kept
        return np.stack([kept[text] for text in texts])

    def _open_own(self) -> "LocalEmbedder":
        from services.memory.local_model import LocalEmbedder

        try:
            self._own = self._own or LocalEmbedder(self._models)
        except StartError as error:
            raise ActionError(error.cause, error.cure) from None
        return self._own

    def close(self) -> None:
        """Stop the threads of Mailroom's own model, if it was loaded beside another one."""
        if self._own:
            self._own.close()


PAUSE = 300.0  # Seconds in which a model that failed is not asked again: others wait for each answer

log = logger(__name__)


class ModelLabels:
    """Asks the model for the labels of texts; ``order`` tells it what they mean.

    ``labels`` is the type of a label, a Literal; ``most`` is the number of texts of one call.
    """

    def __init__(self, models: ModelSession, order: str, labels: Any, most: int) -> None:
        self._models = models
        self._order = order
        self._most = most
        self._room = models.context_characters // 2
        item = msgspec.defstruct("Labelled", [("number", int), ("label", labels)], frozen=True)
        self._answer: type[Any] = msgspec.defstruct("Labels", [("texts", list[item])])  # type: ignore[valid-type]
        self._resume_at = 0.0
        self.chosen = 0
        """The texts that were labelled since the start."""

    async def find(self, texts: Sequence[str]) -> list[str]:
        """The label of each text; "" for those of a call that failed, and of all after it."""
        found: list[str] = []
        for batch in self._batches(texts):
            if time.monotonic() < self._resume_at:
                break
            try:
                found += await self._ask(batch)
            except (ModelError, BusError) as error:
                self._resume_at = time.monotonic() + PAUSE
                log.warning("model_left_alone", reason=str(error), seconds=PAUSE)
        self.chosen += len(found)
        return found + [""] * (len(texts) - len(found))

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        for text in texts:
            if batch and (len(batch) == self._most or sum(map(len, batch)) + len(text) > self._room):
                yield batch
                batch = []
            batch.append(" ".join(text.split()))
        if batch:
            yield batch

    async def _ask(self, texts: Sequence[str]) -> list[str]:
        asked = "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
        messages = [
            Message(role="system", text=self._order),
            Message(role="user", text=quote("The texts", asked)),
        ]

        def check(answer: Any) -> str | None:
            whole = sorted(each.number for each in answer.texts) == [*range(1, len(texts) + 1)]
            return None if whole else f"it must have each number from 1 to {len(texts)} once"

        answer = await self._models.ask_small_model_for(messages, self._answer, check)
        labelled = sorted(answer[0].texts, key=lambda each: each.number)
        return [each.label for each in labelled]
