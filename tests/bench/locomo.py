"""Evidence found in conversations: ``python -m tests.bench.locomo FILE``.

FILE has the form of LoCoMo's: a list of samples (or one), each with a ``conversation`` (``session_N``: turns
of ``speaker``, ``dia_id``, ``text`` and perhaps ``blip_caption``; ``session_N_date_time``) and ``qa``:
questions with the ``evidence``, the ids of the turns that answer them. Files of FriendsQA, QMSum and REALTALK
are read too (``conversation_forms``). Every conversation is put into a memory of its own, kept by the real
daemon; every question is asked over the bus, fast and deep. No language model takes part.

Constants of the search are chosen on every second conversation, from the first on; the others are held out,
and the targets are theirs. The last line is one JSON object: recall of both halves over the questions 1 to 4
(those that have an answer), the targets, and ``met``.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import uvloop

from shared import log
from shared.contracts import Node, Source
from shared.memory import Memory
from tests.bench import machine
from tests.bench.conversation_forms import read_samples
from tests.support.office import Office
from tests.support.sweeper import leave_nothing

AT = 10
"""Recall is the share of a question's evidence among so many hits; of all questions, the mean."""
TITLE = 256
"""The longest title a node may have."""
WRITTEN_AT_ONCE = 200
"""Nodes of one write."""

TARGETS = {"fast": 81.0, "deep": 84.0}
"""Recall in percent on the conversations that are held out, over the questions of ANSWERABLE."""
ANSWERABLE = frozenset("1234")
"""The categories of LoCoMo whose questions have an answer; those of the fifth have none."""

_TURN = re.compile(r"D:?(\d+):(\d+)")
_SPACES = re.compile(r"\s+")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, its category, and the ids of the turns that answer it."""

    text: str
    category: str
    evidence: frozenset[str]


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The turns as nodes, with the turns' ids, and the questions; ``skipped`` ones name no turn there is.

    Evidence that names no turn is left out of a question that has other evidence.
    """

    name: str
    turns: tuple[Node, ...]
    questions: tuple[Question, ...]
    skipped: int
    held_out: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the evidence was found, and in what time."""

    conversation: str
    category: str
    deep: bool
    recall: float
    milliseconds: float
    held_out: bool


def read(path: Path) -> list[Conversation]:
    """The conversations of a file."""
    return [_read_sample(sample, number) for number, sample in enumerate(read_samples(path))]


def _read_sample(sample: dict[str, Any], number: int) -> Conversation:
    name = str(sample.get("sample_id", number))
    turns = tuple(_read_turns(sample["conversation"], name))
    known = {turn.id for turn in turns}
    questions = [
        Question(
            text=entry["question"],
            category=str(entry.get("category", "")),
            evidence=frozenset(_read_ids(entry.get("evidence"))) & known,
        )
        for entry in sample["qa"]
    ]
    used = tuple(question for question in questions if question.evidence)
    return Conversation(
        name=name,
        turns=turns,
        questions=used,
        skipped=len(questions) - len(used),
        held_out=number % 2 == 1,
    )


def _read_turns(conversation: dict[str, Any], name: str) -> Iterator[Node]:
    sessions = [key for key, value in conversation.items() if isinstance(value, list)]
    for session in sessions:
        begun = _read_time(conversation.get(f"{session}_date_time", ""))
        for place, turn in enumerate(conversation[session]):
            text = f"{turn['speaker']}: {turn['text']}"
            if caption := turn.get("blip_caption"):
                text += f" [image: {caption}]"
            (turn_id,) = _read_ids(turn["dia_id"])
            yield Node(
                id=turn_id,
                kind="episodic",
                title=text[:TITLE],
                body=text if len(text) > TITLE else "",
                tags=tuple(turn["speaker"].split()),
                source=Source(session=f"{name}/{session}"),
                created_at=(begun + timedelta(seconds=place)).isoformat(),
            )


def _read_ids(given: object) -> list[str]:
    """The turns that a field names, be it a list or a text, with several in one or written with slips."""
    text = " ".join(map(str, given)) if isinstance(given, list) else str(given or "")
    return [f"D{int(session)}_{int(place)}" for session, place in _TURN.findall(text)]


def _read_time(text: str) -> datetime:
    """As LoCoMo ("1:56 pm on 8 May, 2023") or REALTALK writes it, or ISO 8601; now if there is none; UTC."""
    cleaned = _SPACES.sub(" ", text).strip()
    for parse in (
        lambda: datetime.strptime(cleaned, "%I:%M %p on %d %B, %Y"),
        lambda: datetime.strptime(cleaned, "%d.%m.%Y, %H:%M:%S"),
        lambda: datetime.fromisoformat(cleaned),
    ):
        try:
            return parse().replace(tzinfo=UTC)
        except ValueError:
            continue
    return datetime.now(UTC)


async def ask_all(conversation: Conversation, modes: Sequence[bool]) -> list[Answer]:
    """Put a conversation into the memory of a new office, and ask everything in every mode (deep or not)."""
    with TemporaryDirectory(prefix="mailroom-locomo-") as folder:
        office = Office(Path(folder), MAILROOM_LOG_LEVEL="warning")
        try:
            await office.open(["memory"])
            memory = Memory(office.user)
            for start in range(0, len(conversation.turns), WRITTEN_AT_ONCE):
                await memory.add(*conversation.turns[start : start + WRITTEN_AT_ONCE], insist=True)
            for deep in modes:
                await memory.search("Is anybody there?", deep=deep)  # loads what is loaded late
            return [
                await _ask(memory, conversation, question, deep)
                for deep in modes
                for question in conversation.questions
            ]
        finally:
            await office.close()


async def _ask(memory: Memory, conversation: Conversation, question: Question, deep: bool) -> Answer:
    begun = time.perf_counter()
    hits = await memory.search(question.text, limit=AT, deep=deep)
    milliseconds = (time.perf_counter() - begun) * 1_000
    found = question.evidence & {hit.node.id for hit in hits}
    return Answer(
        conversation=conversation.name,
        held_out=conversation.held_out,
        category=question.category,
        deep=deep,
        recall=len(found) / len(question.evidence),
        milliseconds=milliseconds,
    )


def sum_up(answers: Sequence[Answer]) -> dict[str, Any]:
    """Recall in percent, overall, by category and by conversation, and the times in milliseconds."""
    times = [answer.milliseconds for answer in answers]
    return {
        f"recall_at_{AT}": _mean(answers),
        "by_category": _split(answers, "category"),
        "by_conversation": _split(answers, "conversation"),
        "p50_ms": round(float(np.percentile(times, 50)), 1),
        "p95_ms": round(float(np.percentile(times, 95)), 1),
    }


def judge(answers: Sequence[Answer]) -> dict[str, Any]:
    """The recall of both halves by mode, the targets of the half that is held out, and whether they are met.

    A mode or half without questions has none.
    """
    figures: dict[str, Any] = {"questions": "1 to 4", "figure": f"recall at {AT} by turn, percent"}
    met = True
    for mode, target in TARGETS.items():
        asked = [one for one in answers if one.deep == (mode == "deep") and one.category in ANSWERABLE]
        halves = {
            "chosen_on": [one for one in asked if not one.held_out],
            "held_out": [one for one in asked if one.held_out],
        }
        recalls = {half: _mean(group) if group else None for half, group in halves.items()}
        reached = recalls["held_out"] is not None and recalls["held_out"] >= target
        met = met and reached
        figures[mode] = {**recalls, "target": target, "met": reached}
    return {**figures, "met": met}


def _split(answers: Sequence[Answer], field: str) -> dict[str, float]:
    groups = defaultdict(list)
    for answer in answers:
        groups[getattr(answer, field)].append(answer)
    return {name: _mean(group) for name, group in sorted(groups.items())}


def _mean(answers: Sequence[Answer]) -> float:
    return round(100 * sum(answer.recall for answer in answers) / len(answers), 1)


async def measure(conversations: Sequence[Conversation], modes: Sequence[bool]) -> dict[str, Any]:
    """Ask about all conversations, one after another, and sum up."""
    answers: list[Answer] = []
    for conversation in conversations:
        if conversation.questions:
            answers += await ask_all(conversation, modes)
    split = {"deep" if deep else "fast": [one for one in answers if one.deep == deep] for deep in modes}
    return {
        "conversations": len(conversations),
        "turns": sum(len(conversation.turns) for conversation in conversations),
        "questions_used": sum(len(conversation.questions) for conversation in conversations),
        "questions_skipped": sum(conversation.skipped for conversation in conversations),
        **{name: sum_up(group) for name, group in split.items() if group},
        "halves": judge(answers),
    }


def main() -> None:
    """Measure, and print the result as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.locomo", description="Evidence recall.")
    parser.add_argument("file", type=Path, help="conversations and questions in the form of LoCoMo's")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result to FILE too")
    parser.add_argument("--only", action="append", metavar="ID", help="this conversation; may be repeated")
    parser.add_argument("--no-deep", action="store_true", help="ask fast alone")
    args = parser.parse_args()
    if not args.file.is_file():
        parser.error(f"there is no file {str(args.file)!r}; with make: make bench-locomo DATA=file.json")
    log.configure("bench", level="warning")
    leave_nothing()
    chosen = [entry for entry in read(args.file) if not args.only or entry.name in args.only]
    before = machine.load()
    result = uvloop.run(measure(chosen, [False] if args.no_deep else [False, True]))
    result = {**machine.describe(), "load_before": before, "load_after": machine.load(), **result}
    text = json.dumps(result, indent=1)
    print(text)
    print(json.dumps(result["halves"]))
    if args.json:
        args.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
