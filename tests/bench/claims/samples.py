"""The pairs that evidence is fitted on and judged by: written ones, and those of made-up stores."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import numpy.typing as npt

from services.memory.embedding import open_embedder
from services.memory.linking.rules import KINDS
from services.memory.linking.supersession import COMPARED
from services.memory.writes.change import embedded_text
from shared.contracts import Node
from shared.settings import load
from tests.bench.answers.story import Planted, Teller, tell_changes, tell_facts, tell_lookalikes
from tests.bench.answers.surroundings import tell_fillers
from tests.bench.answers.wording import Wording

Vector = npt.NDArray[np.float32]

HERE = Path(__file__).parent
KNOWN = HERE.parents[1] / "unit" / "claim_pairs" / "known.toml"
START = datetime(2026, 9, 1, tzinfo=UTC)
NEAREST = 40
"""Candidates of a node, as in the linker."""
CROSSED = 12
"""Others' older notes that are held against each newer one."""
STORES = tuple(sorted(path.stem for path in (HERE / "stores").glob("*.toml")))
SEEDS = {"work": (1, 2, 3, 5), **dict.fromkeys(STORES, (1, 2, 3))}
"""The made-up stores, work.toml of bench-answers and those of the folder ``stores``, with their seeds."""
WRITTEN_STORES = tuple(sorted((HERE / "written").glob("*.txt")))
NOTED, NOTED_SHARE = (1, 2), 8.0
"""The stores of which each sentence was written by itself, in how many orders, and what their pairs weigh."""
SMALL, FEW = 9, (0, 3, 10, 25)
"""The claims of a small store, and the other notes in it: what stands beside a note are few there."""
SHARING = 5
"""Topics about the same subjects in stores with even seeds."""
WRITTEN, KNOWN_WEIGHT = 3.0, 2.0
"""What a written pair weighs, for there are few, and one of the tests."""
BASIC, TOLD = 1.0, 0.5
"""What a pair of basics.toml weighs: of attributes, and of what is told of a thing."""
BESIDE = (0, 3, 10)
"""How many facts stand beside what is told of a thing."""
SAMPLED, TOLD_SAMPLED, BESIDE_NOTED = 0.5, 0.06, 1
"""Of what is read for meaning: the shares of pairs of basics.toml, and others' notes beside a later one."""
DRAWN, TOPICS, SAID = 3, 0.5, 0.75
"""How often lines of families.txt are drawn, and of how many topics; how many first notes are no change."""
AGAIN, ELSEWHERE = 0.25, 0.3
"""How many changes are said again, and of how many the like of another thing or of another property."""
PEOPLE = (
    "Ines Otto Farah Mikkel Zofia Ruben Amara Colm Yuki Petra Idris Solveig Nils Carmen Ewa Bashir".split()
)
WEIGHTS = {"replaces": 0.4, "lookalike": 0.3, "apart": 0.12}


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """An older and a newer note, whether the newer one replaces it, and the notes beside them."""

    older: str
    newer: str
    label: str
    kind: str = ""
    weight: float = 1.0
    cosine: float = 0.0
    beside: tuple[str, ...] = ()


def read_pairs(split: str) -> list[Sample]:
    """The written pairs: those to ``fit`` on, or those that are ``held`` and only counted."""
    rows = map(json.loads, (HERE / "pairs.jsonl").read_text("utf-8").splitlines())
    return [msgspec.convert(row, Sample) for row in rows if row["split"] == split]


def read_changes(split: str) -> list[Sample]:
    """The pairs of the file of the folder ``changes``: see its head."""
    found, label, kind = [], "", ""
    for line in (HERE / "changes" / f"{split}.txt").read_text("utf-8").splitlines():
        if match := re.fullmatch(r"\[(replaces|apart) (\w+)\]", line):
            label, kind = match.groups()
        elif " => " in line:
            older, newer = line.split(" => ")
            found.append(Sample(older=older, newer=newer, label=label, kind=kind))
    return found


def read_meanings(split: str = "fit") -> list[Sample]:
    """What reading for meaning is fitted to: pairs as they were written, those of the tests, and some of what
    only looks alike; or what is ``held`` back of the first.
    """
    written = [sample for sample in read_pairs(split) if sample.label != "open"] + read_changes(split)
    if split == "held":
        return written
    random = Random(1)
    basics = [*(pair for pair in _make_basics() if pair.label == "replaces" or random.random() < SAMPLED)]
    told = [pair for pair in _make_tellings() if random.random() < TOLD_SAMPLED]
    noted = [pair for path in WRITTEN_STORES for pair in _pair_notes(path, random)]
    made = [pair for name in STORES for pair in _pair_topics(_read_wording(name), random)]
    return [*written, *_read_known(), *basics, *told, *noted, *made, *_read_families(random)]


def _pair_topics(wording: Wording, random: Random) -> Iterator[Sample]:
    """Sentences of the topics of a store: with a later value, with the same one, of another thing and of
    something else of the same thing; and its pairs that look alike.
    """
    for older, newer in wording.lookalikes.pairs:
        yield Sample(older=older, newer=newer, label="apart")
    for topic in wording.topics:
        values = wording.people if isinstance(topic.values, str) else topic.values
        rest = random.choice([each for each in wording.topics if each is not topic])
        rest_values = wording.people if isinstance(rest.values, str) else rest.values
        if random.random() < TOPICS:
            (thing, other), (old, new, more) = random.sample(topic.subjects, 2), random.sample(values, 3)
            says = random.choice(topic.says)
            former = says if random.random() < SAID else random.choice(topic.moves)
            older = _put(former, s=thing, v=old, o=more)
            frames = [random.choice(topic.moves), random.choice((*topic.moves, *topic.says, *topic.ends))]
            for frame in frames:
                yield Sample(older=older, newer=_put(frame, s=thing, v=new, o=old), label="replaces")
            same, move = random.choice(topic.says), random.choice((*topic.moves, *topic.ends, *topic.says))
            if same != former:
                yield Sample(older=older, newer=_put(same, s=thing, v=old, o=more), label="apart")
            yield Sample(
                older=older, newer=_put(move, s=other, v=new, o=random.choice((old, more))), label="apart"
            )
            first, second = random.sample(rest_values, 2)
            move = random.choice((*rest.moves, *rest.says))
            yield Sample(older=older, newer=_put(move, s=thing, v=first, o=second), label="apart")


def _read_families(random: Random) -> Iterator[Sample]:
    """The pairs of changes/families.txt, see its head; and of what changes something, now and then the same
    said again, the same of another thing, and what another family says of the thing.
    """
    _, *families = (HERE / "changes" / "families.txt").read_text("utf-8").split("\n@ ")
    read = [_read_family(family) for family in families]
    about = [family for family in read if len(family.lists.get("s", ())) > 1]
    for family in read:
        for change in family.changes * family.drawn:
            yield from _draw_changes(family, change, random)
            if family in about:
                yield from _draw_lookalikes(family, change, random.choice(about), random)
        for line in family.others * family.drawn:
            words = _draw_words(family.lists, random)
            older = family.tell_former(words, [*family.firsts, *family.changes[:-1]], random)
            yield Sample(older=older, newer=_put(line, **words), label="apart")


class _Family(msgspec.Struct, frozen=True):
    """What its words may be, what was noted ``firsts``, what ``changes`` it, and what leaves it as it is."""

    lists: dict[str, list[str]]
    firsts: list[str]
    changes: list[str]
    others: list[str]

    @property
    def drawn(self) -> int:
        """How often each line is drawn: once, if nothing in it varies."""
        return DRAWN if self.lists else 1

    @property
    def valued(self) -> bool:
        """Whether something has one of several values, which a later change changes again."""
        return len(self.lists.get("v", ())) > 2

    def tell_former(self, words: Mapping[str, str], later: Sequence[str], random: Random) -> str:
        """What was noted first: the former value, or now and then that it had changed to that."""
        first = random.choice(self.firsts)
        former = random.choice(later) if self.valued and random.random() > SAID else first
        before = {**words, "v": words["o"], "o": words["x"]}
        return _put(former, **(words if former in self.firsts else before))


def _read_family(family: str) -> _Family:
    slots, *lines = family.strip().splitlines()
    lists = {name: words.split("; ") for name, words in re.findall(r"(\w)=([^|]*?)(?: \||$)", slots)}
    marked = ([line[2:] for line in lines if line[0] == mark] for mark in "<=|")
    return _Family(lists, *marked)


def _draw_changes(family: _Family, change: str, random: Random) -> Iterator[Sample]:
    words = _draw_words(family.lists, random)
    later = [] if change == family.changes[-1] else family.changes[:-1]
    older = family.tell_former(words, [*family.firsts, *later], random)
    yield Sample(older=older, newer=_put(change, **words), label="replaces")
    if later and family.valued and random.random() < AGAIN:
        again = random.choice([line for line in (*family.firsts, *later) if line != change])
        same = words if again in later else {**words, "o": words["v"], "v": words["x"]}
        yield Sample(older=_put(change, **words), newer=_put(again, **same), label="apart")


def _draw_lookalikes(family: _Family, change: str, other: _Family, random: Random) -> Iterator[Sample]:
    if random.random() < ELSEWHERE:
        words = _draw_words(family.lists, random)
        told = {**words, "s": words["t"], "t": words["s"]}
        older = family.tell_former(words, family.firsts, random)
        yield Sample(older=older, newer=_put(change, **told), label="apart")
    if other is not family and random.random() < ELSEWHERE:
        words = _draw_words(family.lists, random)
        told = {**_draw_words(other.lists, random), "s": words["s"]}
        older = family.tell_former(words, family.firsts, random)
        yield Sample(older=older, newer=_put(random.choice(other.changes), **told), label="apart")


def _draw_words(lists: Mapping[str, Sequence[str]], random: Random) -> dict[str, str]:
    things, values = lists.get("s", ["it", "it"]), lists.get("v", [""])
    thing, other = random.sample(things, 2)
    old, new, third = random.sample(values, 3) if len(values) > 2 else (*values, "", "", "")[:3]
    person, second = random.sample(PEOPLE, 2)
    return {"s": thing, "t": other, "o": old, "v": new, "x": third, "p": person, "q": second}


def _put(frame: str, **words: str) -> str:
    """A frame with its words; a slot in capitals begins with one."""
    capitals = {name.upper(): word[:1].upper() + word[1:] for name, word in words.items()}
    text = frame
    for _ in range(2):  # a value may name a person
        text = re.sub(r"\{(\w)\}", lambda slot: {**words, **capitals}.get(slot[1], slot[0]), text)
    return text


def _pair_notes(path: Path, random: Random) -> Iterator[Sample]:
    """Each later note of a store in the folder ``written`` with what it replaces, and with other notes."""
    early, late = _read_notes(path)
    for new in late:
        replaced = [old for old in early if new.key and old.key == new.key]
        others = [old for old in random.sample(early, BESIDE_NOTED) if old not in replaced]
        for label, olds in (("replaces", replaced), ("apart", others)):
            for old in olds:
                yield Sample(older=old.node.title, newer=new.node.title, label=label)


def _read_known() -> list[Sample]:
    return [
        Sample(
            older=older, newer=newer, label="apart" if kind == "apart" else "replaces", weight=KNOWN_WEIGHT
        )
        for kind, pairs in tomllib.loads(KNOWN.read_text("utf-8")).items()
        for older, newer in pairs
    ]


def read_all() -> list[Sample]:
    """Everything to fit on, with cosines."""
    written = [sample for sample in read_pairs("fit") if sample.label != "open"]
    written = [msgspec.structs.replace(sample, weight=WRITTEN) for sample in written]
    made = [sample for name in SEEDS for seed in SEEDS[name] for sample in _read_store(name, seed)]
    short = [*_make_basics(), *_make_tellings()]
    noted = [sample for path in WRITTEN_STORES for seed in NOTED for sample in read_written(path, seed)]
    return [*measure([*written, *_read_known(), *short]), *_cross(written), *made, *noted]


def _make_basics() -> Iterator[Sample]:
    """Pairs of the short facts of basics.toml, each pair by itself."""
    basics, random = tomllib.loads((HERE / "basics.toml").read_text("utf-8")), Random(1)
    attributes = basics["attributes"]
    for (attribute, first, second, third), other in zip(
        attributes, attributes[1:] + attributes[:1], strict=True
    ):
        for frame in random.sample(basics["frames"], 2):
            subject, rival = random.sample(basics["subjects"], 2)
            older = _fill(frame, attribute, subject, first)
            yield _make_basic("replaces", older, _fill(frame, attribute, subject, second))
            yield _make_basic("apart", older, _fill(frame, attribute, rival, random.choice((first, third))))
            yield _make_basic("apart", older, _fill(frame, other[0], subject, other[1]))
        for frame in random.sample(basics["short_frames"], 3):
            older = _fill(frame, attribute, "", first)
            yield _make_basic("replaces", older, _fill(frame, attribute, "", third))
            change = random.choice(basics["changes"])
            yield _make_basic("replaces", older, _fill(change, attribute, "", second, first))
            yield _make_basic("apart", older, _fill(change, other[0], "", other[1], other[2]))
    rows = zip(basics["person_frames"], basics["person_values"], basics["person_holds"], strict=True)
    for frame, values, both_hold in rows:
        for person in basics["persons"]:
            older, newer = (_fill(frame, "", person, value) for value in random.sample(values, 2))
            yield _make_basic("apart" if both_hold else "replaces", older, newer)
            rival = random.choice([other for other in basics["persons"] if other != person])
            yield _make_basic("apart", older, _fill(frame, "", rival, random.choice(values)))


def _make_tellings() -> Iterator[Sample]:
    """Pairs of what basics.toml tells of things among others: more of it, or something else instead."""
    random = Random(2)
    for kind in tomllib.loads((HERE / "basics.toml").read_text("utf-8"))["tellings"]:
        told = []
        for thing in kind["things"]:
            value, other = random.sample(kind["values"], 2)
            told += [
                (label, *(_tell(frame, thing, value, other) for frame in (fact, newer)))
                for fact in random.sample(kind["facts"], 2)
                for label, frames, count in (("apart", kind["more"], 8), ("replaces", kind["instead"], 4))
                for newer in random.sample(frames, count)
            ]
        facts = sorted({older for _, older, _ in told})
        for label, older, newer in told:
            beside = (older, newer, *random.sample(facts, random.choice(BESIDE)))
            yield Sample(older=older, newer=newer, label=label, weight=TOLD, beside=beside)


def _tell(frame: str, thing: str, value: str, other: str) -> str:
    text = frame.format(t=thing, T=thing, v=value, o=other)
    return text[:1].upper() + text[1:]


def _make_basic(label: str, older: str, newer: str) -> Sample:
    return Sample(older=older, newer=newer, label=label, weight=BASIC)


def _fill(frame: str, attribute: str, subject: str, value: str, former: str = "") -> str:
    return frame.format(
        a=attribute, A=attribute.capitalize(), s=subject, S=subject.capitalize(), v=value, o=former
    )


def measure(samples: Sequence[Sample]) -> list[Sample]:
    """The samples with their cosines."""
    vectors = _embed([text for sample in samples for text in (sample.older, sample.newer)])
    return [
        msgspec.structs.replace(sample, cosine=float(vectors[sample.older] @ vectors[sample.newer]))
        for sample in samples
    ]


def _embed(texts: Sequence[str]) -> dict[str, Vector]:
    unique = list(dict.fromkeys(texts))
    embedder = open_embedder(load())
    vectors = dict(zip(unique, embedder.embed(unique), strict=True))
    embedder.close()
    return vectors


def _cross(written: Sequence[Sample]) -> Iterator[Sample]:
    """Each newer note with the older ones of other pairs that are most like it: they stay apart."""
    vectors = _embed([text for sample in written for text in (sample.older, sample.newer)])
    older = np.stack([vectors[sample.older] for sample in written])
    paired = {(sample.older, sample.newer) for sample in written}
    for sample in written:
        cosines = older @ vectors[sample.newer]
        for place in np.argsort(-cosines)[:CROSSED]:
            other = written[place].older
            if cosines[place] >= COMPARED and (other, sample.newer) not in paired:
                found = float(cosines[place])
                yield Sample(older=other, newer=sample.newer, label="apart", weight=0.15, cosine=found)


def _read_store(name: str, seed: int) -> Iterator[Sample]:
    """The candidates of a made-up store and of small parts of it."""
    told_of = _read_wording(name)
    teller = Teller(told_of if seed % 2 else _share_subjects(told_of), seed, START)
    tell_changes(teller, 0)
    tell_facts(teller)
    list(tell_lookalikes(teller))
    tell_fillers(teller)
    told = sorted((p for p in teller.planted if p.node.kind in KINDS), key=lambda p: p.node.created_at)
    vectors = _embed([embedded_text(planted.node) for planted in told])
    share = 0.5 if name == "work" else 1.0
    for part in [told, *_divide(told, Random(seed))]:
        yield from _find_candidates(part, vectors, share)


def _read_wording(name: str) -> Wording:
    wording = tomllib.loads((HERE.parent / "answers" / "work.toml").read_text("utf-8"))
    if name != "work":
        wording |= tomllib.loads((HERE / "stores" / f"{name}.toml").read_text("utf-8"))
    return msgspec.convert(wording, Wording)


def read_written(path: Path, seed: int) -> Iterator[Sample]:
    """The candidates of a store in the folder ``written``, in some order, and of small parts of it."""
    random = Random(seed)
    early, late = _read_notes(path)
    random.shuffle(early)
    random.shuffle(late)
    told = [*early, *late]
    vectors = _embed([embedded_text(planted.node) for planted in told])
    for part in [told, *_divide(told, random)]:
        yield from _find_candidates(part, vectors, NOTED_SHARE)


def _read_notes(path: Path) -> tuple[list[Planted], list[Planted]]:
    """The notes of its lines, earlier and later ones; see the head of each file."""
    early: list[Planted] = []
    late: list[Planted] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        mark, _, text = line.partition(" ")
        if mark == "#":
            continue
        key = f"{path.stem} {number}" if mark == "=" else ""
        label = {"=": "claim", "|": "lookalike"}.get(mark, "note")
        told = [Planted(node=Node(title=title), label=label, key=key) for title in text.split(" | ")]
        early.append(told[0])
        late += told[1:]
    return early, late


def _share_subjects(wording: Wording) -> Wording:
    """The same with several topics about each subject: one that has a new owner still runs where it ran."""
    topics = [
        msgspec.structs.replace(topic, subjects=wording.topics[number - number % SHARING].subjects)
        for number, topic in enumerate(wording.topics)
    ]
    return msgspec.structs.replace(wording, topics=tuple(topics))


def _divide(told: Sequence[Planted], random: Random) -> Iterator[list[Planted]]:
    """Small stores: a few claims of a large one with all their states, and some other notes."""
    keys = sorted({planted.key for planted in told if planted.key})
    random.shuffle(keys)
    others = [planted for planted in told if not planted.key]
    for first in range(0, len(keys), SMALL):
        known, beside = keys[first : first + SMALL], random.sample(others, random.choice(FEW))
        yield [planted for planted in told if planted.key in known or planted in beside]


def _find_candidates(
    told: Sequence[Planted], vectors: Mapping[str, Vector], share: float
) -> Iterator[Sample]:
    """What each note may take the place of: the nearest older ones."""
    texts = [embedded_text(planted.node) for planted in told]
    rows = np.stack([vectors[text] for text in texts])
    cosines = rows @ rows.T
    for new, planted in enumerate(told):
        nearest = [int(old) for old in np.argsort(-cosines[new])[: NEAREST + 1]]
        near = [old for old in nearest if old < new and cosines[new, old] >= COMPARED]
        beside = tuple(texts[old] for old in near)
        for old in near:
            same = bool(planted.key) and planted.key == told[old].key
            weight = WEIGHTS["replaces" if same else planted.label if planted.label in WEIGHTS else "apart"]
            yield Sample(
                older=texts[old],
                newer=texts[new],
                label="replaces" if same else "apart",
                weight=share * weight,
                cosine=float(cosines[new, old]),
                beside=beside,
            )
