"""The trainer of memory's classifiers: ``make weights`` (docs/classifier.md).

Each classifier has what it is fitted to (``EXAMPLES``), what ``fit`` makes of that, and ``judge``: the
figures by which the file that is there and the new one are compared.
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from services.conductor.playbook import FOLDER as PLAYBOOKS
from services.conductor.playbook import load_counterexamples, load_playbooks
from services.memory.linking.evidence import NAMES
from services.nexus.routing.following import read_features
from services.nexus.tools.tool import load_tools
from tests.bench.answers.samples import TEAMS, TOLD
from tests.bench.claims import samples as claims
from tests.bench.desk.messages import FOLDER as DESK
from tests.bench.desk.messages import read_talks

KINDS = Path(__file__).parents[1] / "notes" / "kind_examples.txt"
TAUGHT, SEEN = ("taught", "voices"), "work"
"""Conversations that desk and follow-ups are fitted to; of SEEN only what follows another message."""
SAMPLED = 10
"""Of so many conversations one is looked at, to tell if what is seen of messages has changed."""


def _read_files(*paths: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in paths)


def _read_desk() -> bytes:
    sentences = {name: tool.sentences for name, tool in load_tools().items()}
    said = [talk.lines[0].say for name in TAUGHT for talk in read_talks(name)][::SAMPLED]
    seen = repr([sorted(read_features(text)) for text in said]).encode()
    return msgspec.json.encode(sentences) + _read_files(*(DESK / f"{name}.jsonl" for name in TAUGHT)) + seen


def _read_supersession() -> bytes:
    stores = (claims.HERE / "stores" / f"{name}.toml" for name in claims.STORES)
    pairs = (claims.HERE / "pairs.jsonl", claims.HERE / "basics.toml", claims.KNOWN)
    return _read_files(*pairs, *stores, *claims.WRITTEN_STORES) + msgspec.json.encode(NAMES)


def _read_meaning() -> bytes:
    changes = (claims.HERE / "changes" / f"{name}.txt" for name in ("fit", "families"))
    stores = (claims.HERE / "stores" / f"{name}.toml" for name in claims.STORES)
    return _read_files(claims.HERE / "pairs.jsonl", claims.KNOWN, *changes, *stores)


def read_playbook_examples() -> list[tuple[str, str]]:
    """The name of each playbook, or of who does what none does, with an example."""
    against = load_counterexamples()
    examples = {book.name: book.examples for book in load_playbooks(PLAYBOOKS).values()}
    examples |= {"desk": against.desk, "nobody": against.nobody}
    return [(name, text) for name, texts in examples.items() for text in texts]


EXAMPLES: Mapping[str, Callable[[], bytes]] = {
    "desk": _read_desk,
    "following": lambda: _read_desk() + _read_files(DESK / f"{SEEN}.jsonl"),
    "playbooks": lambda: msgspec.json.encode(read_playbook_examples()),
    "kinds": lambda: _read_files(KINDS),
    "supersession": _read_supersession,
    "meaning": _read_meaning,
    "certainty": lambda: _read_files(*TEAMS, *TOLD),
}


def fingerprint(name: str) -> str:
    """What tells the examples of a classifier from others."""
    return hashlib.sha256(EXAMPLES[name]()).hexdigest()[:16]
