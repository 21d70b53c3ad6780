"""The words of an answer as a model writes them, sentence by sentence: each is checked before it is told."""

from collections.abc import Callable

from shared import subjects
from shared.bus import Bus
from shared.contracts import AnswerWords
from shared.errors import BusError
from shared.text.prose import SENTENCE_BREAK

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
