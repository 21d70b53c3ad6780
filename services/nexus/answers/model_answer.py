"""Answers from memory by quotations; and what a model writes, checked, also while it is told."""

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from services.nexus.answers.answer_type import MOST, find_type, read_listed
from services.nexus.answers.asked_time import AskedTime, held_in, read_asked_time
from services.nexus.answers.choice import choose
from services.nexus.answers.evidence import READ, find_later, read_evidence
from services.nexus.answers.memory_answer import (
    answer_by_likeness,
    answer_from_sentences,
    answer_with_list,
    build_packet,
    decline,
    may_be_shown,
    rank_hits,
)
from services.nexus.answers.unsupported_claims import remove_unsupported
from services.nexus.answers.weighing import is_noted
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Bus
from shared.clock import read_zone
from shared.contracts import (
    MAX_TEXT,
    AnswerWords,
    ContextPacket,
    Due,
    Hit,
    Node,
    Response,
    ResultOutcome,
)
from shared.errors import BusError
from shared.language.utterance import is_question
from shared.llm.provider import read_answer
from shared.reasoning.recall import measure_relevance
from shared.text.display import flatten, shorten
from shared.text.prose import SENTENCE_BREAK, asks_about_work, find_terms

CITATION = re.compile(r"\[([A-Za-z0-9][A-Za-z0-9_-]{0,127})\]")
"""How an answer cites: the id of a memory in brackets."""
NO_ANSWER = "Memory holds nothing that answers this."
MAX_ANSWER = 8_000  # Characters of an answer: four times a long one
UNCITED_CONFIDENCE = 0.2  # The confidence of an answer that cites nothing


MAX_MEMORIES = 8  # The most memories in a context packet


class Answerer:
    """Searches memory, and answers from it by quotations."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    async def quote(self, text: str, told: Sequence[Node] = ()) -> Response:
        """Quotations from memory; what was ``told`` and is not in memory is read beside it.

        A question is answered by the sentences that answer it, a topic ("the billing service") by what is
        like it.
        """
        try:
            packet, hits = await self.search(text)
        except BusError as error:
            return _without_memory(error)
        if not is_question(text):
            return answer_by_likeness(text, packet, hits)
        try:
            asked = read_asked_time(text, datetime.now(read_zone(self._context.settings.time_zone)))
            listed = await (self._find_happened(text, asked) if asked else self._find_listed(text))
            if listed and (asked is None or asked.wants_all):
                return answer_with_list(packet, listed)
            memory, terms = self._context.memory, find_terms(text)
            question, then = (asked.question, asked.span.end) if asked else (text, 0.0)
            found = await self._find_with_later(question)
            shown = [Hit(node=node, score=0.0) for node in told]
            shown += [hit for hit in found if may_be_shown(hit.node, terms)]
            if asked:
                held = [hit for hit in (*shown, *listed) if held_in(hit.node, asked.span)]
                shown = [msgspec.structs.replace(hit, superseded_by="", questioned_by="") for hit in held]
            chosen = await choose(question, await read_evidence(memory, question, shown, then), memory)
            if asked and not chosen.answers:
                return (
                    answer_with_list(packet, listed) if listed else decline(text, packet, hits, asked.named)
                )
            if not chosen.answers:
                noted = [hit for hit in hits if is_noted(hit.node)] if asks_about_work(text) else []
                return answer_by_likeness(text, packet, noted)
            titles = {hit.node.id: hit.node.title for hit in found}
            return answer_from_sentences(text, packet, chosen, titles)
        except BusError:  # it found, and cannot read: the model is missing, or it just ended
            return answer_by_likeness(text, packet, hits)

    async def _find_listed(self, text: str) -> list[Hit]:
        """The memories that a question wants listed; none if it asks for one thing."""
        wanted = read_listed(text)
        if wanted is None:
            return []
        hits = await self._context.memory.search(wanted.text, limit=MOST, kinds=wanted.kinds)
        noted = ("goal", "cognition")
        known = [hit for hit in rank_hits(hits) if hit.node.source.channel not in noted]
        return wanted.keep([hit for hit in known if hit.node.kind != "agent"])

    async def _find_happened(self, text: str, asked: AskedTime) -> list[Hit]:
        """What happened at the time that a question asks about, as far as it asks for that: what people and
        files say, else what the office noted.
        """
        kinds = ("decision",) if asked.decided else ()
        if find_type(text, "")[0] or not (asked.terms or asked.wants_all):
            return []
        hits = rank_hits(await self._context.memory.search(text, limit=MOST, kinds=kinds, history=True))
        found = asked.list_from(hits)
        return [hit for hit in found if not is_noted(hit.node)] or found

    async def _find_with_later(self, text: str) -> list[Hit]:
        """Hits with those that were superseded, and what superseded these or may have: it may be put in other
        words.
        """
        memory = self._context.memory
        hits = await self._context.memory.search(text, limit=READ, history=True)
        known = {hit.node.id for hit in hits}
        later = sorted({find_later(hit) for hit in hits} - known - {""})
        newer = await memory.get(*later) if later else []
        return [*hits, *(Hit(node=node, score=0.0) for node in newer)]

    async def search(self, text: str) -> tuple[ContextPacket, list[Hit]]:
        """The context packet of ``text``, and the hits it is made from; raises BusError."""
        # Settled: what a goal found is written just before it ends, and people ask about it at once.
        hits = await self._context.memory.search(text, limit=MAX_MEMORIES, settled=True)
        packet = build_packet(text, hits, limit=MAX_MEMORIES)
        shown = {item.evidence_id for item in packet.bullets}
        kept = [hit for hit in hits if hit.node.id in shown]
        try:
            best = (await measure_relevance(self._context.memory, text, kept)).get("best")
        except BusError:  # a figure that is only counted: the answer does not wait for it
            best = None
        nearest = min(1.0, max(0.0, best)) if isinstance(best, float) else 0.0
        return msgspec.structs.replace(packet, best=nearest), hits


def _without_memory(error: BusError) -> Response:
    text = f"I cannot look into memory just now. {error}"
    return Response(text=text, outcome=ResultOutcome.FAILED)


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer: a text that cites memories by their ids in brackets, and those ids."""

    text: str
    citations: tuple[str, ...] = ()


def read_written(text: str) -> ModelAnswer:
    """The answer in a model's text: the text itself, or JSON if it wrote that unasked."""
    if text.lstrip().startswith(("{", "```")):
        with suppress(ValueError):
            return read_answer(text, ModelAnswer)
    return ModelAnswer(text=text)


def check_sentence(sentence: str, packet: ContextPacket, told: str = "") -> str:
    """What people may see of a sentence before the answer is whole: nothing invented, nothing claimed."""
    known = {item.evidence_id for item in packet.bullets}
    text = CITATION.sub(lambda mark: mark[0] if mark[1] in known or not _is_id(mark[1]) else "", sentence)
    given = " ".join([packet.query, *(item.text for item in packet.bullets)])
    return remove_unsupported(text, given, known, told)[0].strip()


def checked_response(
    answer: ModelAnswer, packet: ContextPacket, reminders: Sequence[Due], told: str = ""
) -> Response:
    """The response to the person: invented citations and false claims are removed, and notes say so.

    ``told`` is what tools told the model: what it says and an id there is not invented.
    """
    cut = shorten(answer.text, MAX_ANSWER)
    known = {item.evidence_id: item for item in packet.bullets}
    marked = dict.fromkeys(mark for mark in CITATION.findall(cut) if _is_id(mark))
    named = [each for each in dict.fromkeys((*marked, *answer.citations)) if each not in known]
    invented = [each for each in named if each not in told]
    text = CITATION.sub(lambda mark: "" if mark[1] in invented else mark[0], cut)
    given = " ".join([packet.query, *(item.text for item in packet.bullets)])
    text, removed, about_reminders = remove_unsupported(text, given, known, told)
    cited = [each for each in known if f"[{each}]" in text or each in answer.citations]
    notes = [*_invented_note(invented), *_claims_note(removed, packet.query)]
    if about_reminders:
        notes.append(_reminders_note(reminders))
    if not re.search(r"\w", text):
        text, cited = NO_ANSWER, []
    text = re.sub(r"[ \t]+(?=[.,;:!?])", "", re.sub(r"[ \t]{2,}", " ", text)).strip()
    return Response(
        text=shorten("\n\n".join([text, *notes]), MAX_TEXT),
        citations=tuple(cited),
        context_used=packet,
        confidence=_confidence([known[each].score for each in cited], doubted=bool(notes)),
        outcome=ResultOutcome.FAILED if about_reminders else ResultOutcome.DONE,
    )


def _is_id(mark: str) -> bool:
    """Whether a word in brackets looks like an id: ``[1]`` and ``[sic]`` do not."""
    return len(mark) > 4 or (any(map(str.isdigit, mark)) and any(map(str.isalpha, mark)))


def _invented_note(invented: Sequence[str]) -> list[str]:
    if not invented:
        return []
    one = len(invented) == 1
    named = "A source the model named is" if one else f"{len(invented)} sources the model named are"
    return [f"({named} not in memory's answer and {'was' if one else 'were'} taken out.)"]


def _claims_note(removed: Sequence[str], question: str) -> list[str]:
    if not removed:
        return []
    quoted = shlex.quote(flatten(question, 200))
    return [
        "(The model claimed something that did not happen, which was taken out: this answer set, started "
        f"and sent nothing. To have it done: mailroom submit {quoted}; "
        "for a reminder say 'remind me to ... at ...'.)"
    ]


def _reminders_note(reminders: Sequence[Due]) -> str:
    if not reminders:
        return "(There are no open reminders.)"
    count = "is one open reminder" if len(reminders) == 1 else f"are {len(reminders)} open reminders"
    return f"(There {count}: see 'mailroom reminders list'.)"


def _confidence(scores: Sequence[float], *, doubted: bool) -> float:
    best = max((min(1.0, max(0.0, score)) for score in scores), default=0.0)
    confidence = max(UNCITED_CONFIDENCE, best) if scores else UNCITED_CONFIDENCE
    return round(confidence / 2 if doubted else confidence, 3)


MAX_BUFFERED = 4_000
"""Characters without the end of a sentence after which no more is told: the whole answer follows anyway."""


class SpokenAnswer:
    """Tells people the answer to one question while it is written; what is lost on the way is in the answer.

    ``check`` returns what may be shown of a sentence; it is empty if nothing may.
    """

    def __init__(self, bus: Bus, question_id: str, check: Callable[[str], str]) -> None:
        self._bus = bus
        self._id = question_id
        self._check = check
        self._held = ""
        self._number = 0

    async def add(self, piece: str) -> None:
        """Take a piece of the answer, and tell the sentences that it completes."""
        self._held += piece
        if self._held.lstrip().startswith(("{", "```", "<think>")):
            # No text for people, or not yet: what a model thinks before it answers.
            thought, ended, rest = self._held.partition("</think>")
            self._held = rest.lstrip() if ended else thought[:MAX_BUFFERED]
            return
        while (end := _end_of_sentence(self._held)) and len(self._held) < MAX_BUFFERED:
            sentence, self._held = self._held[:end], self._held[end:]
            await self._tell(sentence)

    @property
    def has_told(self) -> bool:
        """Whether people have heard some of it."""
        return self._number > 0

    def drop(self) -> None:
        """Begin again: what was written so far led to a call, and is no answer."""
        self._held, self._number = "", 0

    async def end(self) -> None:
        """Tell what is left when the answer is complete."""
        if self._held.strip() and not self._held.lstrip().startswith(("{", "```", "<think>")):
            await self._tell(self._held)
        self._held = ""

    async def _tell(self, sentence: str) -> None:
        shown = self._check(sentence.strip())
        if not shown:
            return
        space = sentence[len(sentence.rstrip()) :] or " "
        words = AnswerWords(question_id=self._id, number=self._number, text=shown + space)
        self._number += 1
        try:
            await self._bus.publish(subjects.words(self._id), words.to_json())
        except BusError:  # nobody is told in advance; the answer itself is stored
            self._held = ""


def _end_of_sentence(text: str) -> int:
    """Where the first sentence of ``text`` ends, behind the space after it; 0 if it goes on."""
    found = SENTENCE_BREAK.search(text)
    line = text.find("\n") + 1
    if found and (not line or found.end() < line):
        return found.end()
    return line
