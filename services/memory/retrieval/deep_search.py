"""Deep search: the best hits are compared with the question word by word, with what was said around them."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.loading import release_ram
from services.memory.local_model import CURE, locate
from services.memory.retrieval.node_table import NONE
from services.memory.retrieval.ranking import lift_siblings
from shared.contracts import Hit, MemoryQuery, Node
from shared.contracts.base import amended
from shared.errors import StartError
from shared.log import logger
from shared.subjects import USER

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

    from services.memory.retrieval.vectors import Numbers, Vectors
    from services.memory.retrieval.view import View

    _Model: TypeAlias = tuple[Tokenizer, onnxruntime.InferenceSession]


MAX_TOKENS = 160
"""Of question and passage together; the longer of the two is cut off at its end. Time grows in proportion."""

MAX_CHARACTERS = 1_000  # Cut before tokenising: more would not fit into the tokens

RERANKER, MODEL = "reranker_en", "model.onnx"  # The folder of the cross-encoder, and its file

STATES = "/bert/encoder/layer.8/output/LayerNorm/Add_1_output_0"
"""The tensor of its ninth layer of twelve, from which ``linking.meaning`` reads on."""

WORKERS = max(2, min(8, os.cpu_count() or 2))  # Threads that read


class Reranker:
    """The model, loaded from ``directory`` when it is first used: that takes 0.3 s and 40 MB.

    What a text gets depends on question and text alone, because each is a run of its own: the int8 model
    scales its activations over the whole of a run. Batches of 4, 8 or 12 texts of one length took as much
    processor time (.51 to .64 s for 48 texts, .53 to .65 one by one).
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="rerank")
        self.last_used = 0.0
        """When it last read, by the monotonic clock; 0 while it is not loaded."""

    @property
    def is_there(self) -> bool:
        """Whether its files are: an office whose model of vectors runs elsewhere may lack them."""
        return (self._directory / RERANKER / MODEL).is_file()

    def read(self, question: str, passages: Sequence[str]) -> list[float]:
        """The logit of each passage as an answer to the question.

        Raises StartError with the cure if the model is missing or broken.
        """
        model = self._load()
        logits = self._pool.map(lambda passage: _run(model, "logits", question, passage), passages)
        return [float(each[0, 0]) for each in logits]

    def states(self, one: str, other: str) -> "Numbers":
        """What the layer STATES makes of two texts read together, a row a token.

        Raises StartError with the cure if the model is missing or broken.
        """
        states: Numbers = _run(self._load(), STATES, one, other)[0]
        return states

    def unload(self) -> None:
        """Give back the model's memory, once what is being read is finished."""
        with self._lock:
            self._model, self.last_used = None, 0.0

    def close(self) -> None:
        """Stop the threads; what is being read is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _load(self) -> "_Model":
        with self._lock:
            self._model = self._model or open_model(self._directory, RERANKER)
            self.last_used = time.monotonic()
            return self._model


def _run(model: "_Model", output: str, one: str, other: str) -> "Numbers":
    """An output of the model for two texts read together."""
    tokenizer, session = model
    encoded = tokenizer.encode(one[:MAX_CHARACTERS], other[:MAX_CHARACTERS])
    ids = np.array([encoded.ids], np.int64)
    kinds = np.array([encoded.type_ids], np.int64)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": kinds}
    found: Numbers
    (found,) = session.run([output], inputs)
    return found


def open_model(directory: Path, name: str) -> "_Model":
    """The model ``name`` with the tokenizer of the cross-encoder; raises StartError with the cure."""
    import onnxruntime
    from tokenizers import Tokenizer

    vocabulary, model = (
        locate(directory, "reranker_en/tokenizer.json"),
        locate(directory, f"{name}/{MODEL}"),
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # would keep what the longest text took, and is no faster
    try:
        tokenizer = Tokenizer.from_file(str(vocabulary))
        more = _ask_for(STATES) if name == RERANKER else b""
        session = onnxruntime.InferenceSession(
            model.read_bytes() + more, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # both raise their own kinds, Exception itself among them
        raise StartError(f"The model {name} in {directory} is broken ({error})", CURE) from None
    release_ram()  # what parsing the file took: 23 MB
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    return tokenizer, session


def _ask_for(output: str) -> bytes:
    """What makes a tensor within a model one of its outputs, behind the model's bytes: files of ONNX are
    messages of protobuf, of which two behind each other are one with the fields of both.
    """
    told = output.encode()
    for field in (1, 12, 7):  # the name of an output, an output of the graph, the graph
        told = bytes([field << 3 | 2, len(told)]) + told
    return told


ASKED, TOLD = 1, 2  # The tokens behind the first one by which the model tells a question from a passage

KEPT_BYTES = 48 * 1024 * 1024  # What the kept vectors of texts take at most: of some 5,000 texts of 25 tokens

SCALE = 127  # Kept vectors are whole numbers up to this: cosines with them are exact to .005


class _Encoded(NamedTuple):
    """The words of a text in lower case by their places, the place that each token is part of (None: of no
    word), and the unit vectors of the tokens.
    """

    words: dict[int, str]
    places: list[int | None]
    vectors: "Numbers"

    def token_words(self) -> list[str]:
        """The word of each token; "" if it is part of none."""
        return ["" if place is None else self.words[place] for place in self.places]


class TokenCosines(NamedTuple):
    """The word of each token of a question ("" if it is part of none), and for each text, a row each, the
    best cosine of its tokens with each of those.
    """

    words: list[str]
    cosines: "Numbers"


class Aligner:
    """The model, loaded from ``directory`` when it is first used: that takes 0.2 s and 40 MB.

    The vectors compared are those before the model's last projection, which the file does not have.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="align")
        self._kept = _KeptVectors(KEPT_BYTES)
        self.progress = ReadingProgress()

    def align(self, question: str, passages: Sequence[str]) -> list[dict[str, float]]:
        """For each passage how near it comes to each word of the question: the best cosine of its tokens with
        those of the word. Words are in lower case; of one that occurs twice the last counts.

        Raises StartError with the cure if the model is missing or broken.
        """
        self._load()
        asked = self._encode(question, ASKED)
        return list(self._pool.map(lambda passage: _compare(asked, self._encode(passage, TOLD)), passages))

    def compare_tokens(self, question: str, texts: Sequence[str]) -> TokenCosines:
        """How near each text comes to each token of the question.

        Vectors of texts are kept, so that what is compared again costs some 20 us instead of 4 ms and more.
        Punctuation of the texts is left out. Raises StartError as ``align`` does.
        """
        self._load()
        asked = self._encode(question, ASKED)
        keys = [blake2b(text.encode(errors="replace"), digest_size=16).digest() for text in texts]
        told = self._kept.find(keys)
        unread = {key: text for key, text in zip(keys, texts, strict=True) if key not in told}
        with self.progress.of(len(unread)):
            told |= zip(unread, self._pool.map(self._read_text, unread, unread.values()), strict=True)
        rows = [_compare_kept(asked.vectors, told[key]) for key in keys]
        return TokenCosines(asked.token_words(), np.array(rows).reshape(len(texts), len(asked.vectors)))

    def forget(self) -> None:
        """Drop the kept vectors."""
        self._kept.clear()

    def unload(self) -> None:
        """Give back the memory of model and kept vectors; to be called while nothing is compared."""
        with self._lock:
            self._model = None
        self.forget()

    def close(self) -> None:
        """Stop the threads; what is being read is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _load(self) -> None:
        with self._lock:
            self._model = self._model or open_model(self._directory, "colbert")

    def _read_text(self, key: bytes, text: str) -> "NDArray[np.int8]":
        """The vectors of a text's tokens, times SCALE; a row each."""
        told = self._encode(text, TOLD)
        said = [not word or word.isalnum() for word in told.token_words()]
        vectors = np.rint(SCALE * told.vectors[said]).astype(np.int8)
        self._kept.put(key, vectors)
        self.progress.count()
        return vectors

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


class ReadingProgress:
    """How many texts are ``wanted`` that were never read, and how many of them are ``read`` so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._searches = self.wanted = self.read = 0

    @contextmanager
    def of(self, number: int) -> Iterator[None]:
        """While so many texts more are read."""
        with self._lock:
            self._searches += 1
            self.wanted += number
        try:
            yield
        finally:
            with self._lock:
                self._searches -= 1
                if not self._searches:
                    self.wanted = self.read = 0

    def count(self) -> None:
        """One more has been read."""
        with self._lock:
            self.read += 1


class _KeptVectors:
    """The vectors of the texts that were used last, up to so many bytes; for any number of threads."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._lock = threading.Lock()
        self._texts: OrderedDict[bytes, NDArray[np.int8]] = OrderedDict()

    def find(self, keys: Sequence[bytes]) -> "dict[bytes, NDArray[np.int8]]":
        with self._lock:
            found = {key: self._texts[key] for key in keys if key in self._texts}
            for key in found:
                self._texts.move_to_end(key)
            return found

    def put(self, key: bytes, vectors: "NDArray[np.int8]") -> None:
        with self._lock:
            if key not in self._texts:
                self._texts[key] = vectors
                self._bytes += vectors.nbytes
            while self._bytes > self._most:
                self._bytes -= self._texts.popitem(last=False)[1].nbytes

    def clear(self) -> None:
        with self._lock:
            self._texts.clear()
            self._bytes = 0


def _compare_kept(asked: "Numbers", told: "NDArray[np.int8]") -> "Numbers":
    best: Numbers = (asked @ told.T.astype(np.float32)).max(axis=1) / SCALE
    return best


def _compare(asked: _Encoded, told: _Encoded) -> dict[str, float]:
    best = (asked.vectors @ told.vectors.T).max(axis=1).tolist()
    found: dict[str, float] = {}
    for place, word in asked.words.items():
        if word.isalnum():
            near = [best[token] for token, part in enumerate(asked.places) if part == place]
            found[word] = round(sum(near) / len(near), 4)
    return found


CANDIDATES = 70
"""How many hits are compared: with those around them some 160 texts of a conversation, .3 s if none was
compared before. With 100 or all of a conversation as much was found."""

BEFORE, AFTER = (0.95, 0.87), (0.93, 0.87)
"""What a cosine counts with the two texts before one in its session, the nearest first, and with those after
it: an answer follows its question. Without these texts 10 % less was found in FriendsQA; with .93 before too
.3 % less there and in QMSum, .6 % more in REALTALK."""

WHOLE = 0.22
"""What each of the two tokens that stand for the whole question counts, beside 1 for all words. With .15 .2
to .4 % less was found in all sets but QMSum."""

EVEN = 0.4
"""What all tokens count alike, beside 1 for what their words do: "when" and "where" say what is asked.
With .3 to 1 as much was found."""

SHARES = {"vector": 0.3, "keyword": 0.3, "date": 0.9, "name": 0.6, "graph": 0.3}
"""What the parts of the fast search count beside the comparison, which knows words and meaning already, but
neither dates nor who spoke. With .42 for all parts, without EVEN and without what the best of a session
lifts, recall in the half of LoCoMo that constants are chosen on (786 questions), REALTALK (705), FriendsQA
(500) and QMSum (102) was 84.3, 62.2, 66.3 and 51.5 %; with all of these 86.1, 63.5, 67.1 and 50.7, and
86.5, 63.9, 67.1 and 50.7 since a name counts more where two speak."""

COMPARED = 0.5  # The share of the comparison

FLOOR = 0.5  # The mean cosine below which a text has nothing of a question

UNREAD = "unread"
"""The part of a score, always 0, that says that the model is missing: the order is the fast search's."""

log = logger(__name__)


class Passage(NamedTuple):
    """The text of a hit, and those before and after it in its session, the nearest first."""

    own: str
    before: list[str]
    after: list[str]

    def weigh(self) -> list[tuple[str, float]]:
        """Each text, and what a cosine with it counts."""
        before, after = zip(self.before, BEFORE, strict=False), zip(self.after, AFTER, strict=False)
        return [(self.own, 1.0), *before, *after]


class DeepSearch:
    """Searches whose best hits are compared with the question by ``aligner``."""

    def __init__(self, aligner: Aligner) -> None:
        self._aligner = aligner

    def search(
        self, view: "View", query: MemoryQuery, vector: "Vectors", moment: float, reader: str = USER
    ) -> list[Hit]:
        """The best nodes, best first; candidates are the first CANDIDATES of the fast search.

        A hit's nearness is the mean over the words of the question, weighed as in the fast search and by
        EVEN, of the best cosine that a token of the hit has with the word, or a token of the two texts before
        and after it in its session, times BEFORE and AFTER. Its score is the sum of the parts of the fast
        search, times SHARES, of COMPARED x the nearness above FLOOR (``why``: ``compared``), and of what it
        gains by the best of its session (``session``: ``lift_siblings``). All is done however long it takes.
        Without the model the hits are those of the fast search, with UNREAD in ``why``.
        """
        wide = msgspec.structs.replace(query, limit=max(query.limit, CANDIDATES))
        hits = view.search(wide, vector, moment, reader)
        try:
            hits = self._reorder(view, query.text, hits)
        except StartError as error:
            log.warning("not_read", reason=str(error))
            hits = [msgspec.structs.replace(hit, why={**hit.why, UNREAD: 0.0}) for hit in hits]
        return hits[: query.limit]

    def _reorder(self, view: "View", question: str, hits: Sequence[Hit]) -> list[Hit]:
        nodes = [hit.node for hit in hits[:CANDIDATES]]
        beside = view.session_neighbours([node.id for node in nodes])
        passages = [make_passage(node, *around) for node, around in zip(nodes, beside, strict=True)]
        parts = [_scale(hit.why) for hit in hits]
        for part, near in zip(parts, self._compare(view, question, passages), strict=False):
            part["compared"] = COMPARED * max(0.0, near - FLOOR) / (1 - FLOOR)
        scores = np.array([sum(part.values()) for part in parts], np.float32)
        lifts = lift_siblings(scores, _number_sessions(hits)).tolist()
        scored = [
            _score(hit, {**part, "session": lift}) for hit, part, lift in zip(hits, parts, lifts, strict=True)
        ]
        return sorted(scored, key=lambda hit: -hit.score)

    def _compare(self, view: "View", question: str, passages: Sequence[Passage]) -> list[float]:
        weighed = [one.weigh() for one in passages]
        texts = {text: row for row, text in enumerate(dict.fromkeys(t for one in weighed for t, _ in one))}
        words, cosines = self._aligner.compare_tokens(question, [*texts])
        weights = _weigh_tokens(view, words)
        return [
            float(_fade(cosines[[texts[text] for text, _ in one]], [fade for _, fade in one]) @ weights)
            for one in weighed
        ]


def make_passage(node: Node, before: Sequence[Node], after: Sequence[Node]) -> Passage:
    """A node with those before and after it, both in the order of their session."""
    return Passage(_text_of(node), [*map(_text_of, before[::-1])], [*map(_text_of, after)])


def _fade(cosines: "Numbers", fades: Sequence[float]) -> "Numbers":
    best: Numbers = (cosines * np.array(fades, np.float32)[:, None]).max(axis=0)
    return best


def _weigh_tokens(view: "View", words: Sequence[str]) -> "Numbers":
    """What each token of a question counts, 1 in all: what its word does, shared by the word's tokens, for
    the first two, which stand for all of it, WHOLE of that sum, and EVEN shared by all.
    """
    weights = view.weigh_words(set(words))
    found = np.array([weights[word] / words.count(word) for word in words], np.float32)
    if not found.any():
        return np.full(len(words), 1 / len(words), np.float32)
    found[:2] = WHOLE * found.sum()
    shares: Numbers = (found / found.sum() + np.float32(EVEN / len(words))) / np.float32(1 + EVEN)
    return shares


def _scale(why: Mapping[str, float]) -> dict[str, float]:
    """What the parts of the fast search count in a deep one."""
    return {name: SHARES[name] * part for name, part in why.items() if name in SHARES}


def _number_sessions(hits: Sequence[Hit]) -> NDArray[np.intp]:
    numbers = {"": NONE}
    return np.array([numbers.setdefault(hit.node.source.session, len(numbers)) for hit in hits])


def _score(hit: Hit, parts: Mapping[str, float]) -> Hit:
    why = {name: round(part, 4) for name, part in parts.items() if part}
    return amended(hit, score=min(1.0, round(sum(parts.values()), 4)), why=why)


def _text_of(node: Node) -> str:
    """A node's title and body; the body alone if it begins with the title."""
    return node.body if node.body.startswith(node.title) else f"{node.title}\n{node.body}".strip()
