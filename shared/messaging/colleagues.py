"""What an agent that thinks may ask of the others: tasks, letters, questions to all."""

import asyncio
import time
from typing import Protocol

from shared import subjects
from shared.bus import Bus
from shared.contracts import Email, Presence, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, Conflict
from shared.log import logger
from shared.tasks.actions import Outcome, register_action
from shared.text.excerpt import excerpt

PAGES_AGE = 10.0
"""Seconds for which what the yellow pages say is taken as it was."""
ANSWER_WAIT = 300.0
"""Seconds a colleague has to answer a question to all."""
MAX_HOPS = 3
"""How often a matter is passed on from agent to agent: whom it reaches then works it out alone, or two might
write to each other for ever."""
MAX_PAGE = 1_000
"""Characters of what an agent says of itself that stand in the prompts of others."""
QUIET = frozenset({subjects.MEMORY_DAEMON, subjects.CONDUCTOR})
"""Who reads no letters in plain words."""

log = logger(__name__)


def offered(hops: int) -> tuple[str, ...]:
    """The actions of Colleagues for a job that was passed on ``hops`` times; only people's is put to all."""
    if hops >= MAX_HOPS:
        return ()
    return ("delegate_task", "write_to_colleague", *(() if hops else ("ask_everybody",)))


class Correspondent(Protocol):
    """The agent on whose behalf colleagues are asked."""

    async def delegate(self, assignee: str, text: str) -> TaskResult:
        """See Agent.delegate."""

    async def write_letter(self, recipient: str, subject: str, body: str, *, key: str = "") -> Email:
        """See Agent.write_letter."""


class Directory:
    """Who is at work now, as their presence says."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: dict[str, Presence] = {}
        self._read_at = 0.0

    async def read(self) -> dict[str, Presence]:
        """One presence of each agent at work, by name, oneself included."""
        if not self._read_at or time.monotonic() - self._read_at > PAGES_AGE:
            found = {}
            request = {"multi_last": [subjects.presence("*", "*")]}
            async for stored in self._bus.read(subjects.bucket_stream(subjects.AGENTS_BUCKET), request):
                if stored.data:
                    presence = Presence.from_json(stored.data)
                    found[presence.agent] = presence
            self._known, self._read_at = found, time.monotonic()
        return self._known

    async def text(self, me: str) -> str:
        """Everybody at work but ``me``, and how to write to them; for a prompt."""
        try:
            known = await self.read()
        except BusError as error:
            log.warning("no_yellow_pages", reason=str(error))
            return ""
        return "\n".join(
            f"- {page.agent}: {_in_a_line(page)}"
            for page in sorted(known.values(), key=lambda page: page.agent)
            if page.agent not in (me, *QUIET)
        )


class PeerActions:
    """The actions that reach other agents; each waits for its own answer while the mailbox goes on."""

    def __init__(self, me: str, agent: Correspondent, pages: Directory) -> None:
        self._me = me
        self._agent = agent
        self._pages = pages

    @register_action(
        "Hand a task to a colleague and wait for the result",
        {"assignee": "The colleague's name", "task": "What is to be done, with all that is needed to do it"},
    )
    async def delegate_task(self, assignee: str, task: str) -> Outcome:
        """The colleague's result; raises ActionError where it failed or nobody of that name is at work."""
        await self._require(assignee)
        result = await self._agent.delegate(assignee, task)
        if result.status is not TaskStatus.COMPLETED:
            reason = result.error_message or result.status
            raise ActionError(f"{assignee} could not do it: {reason}".rstrip("."), result.output)
        return Outcome(
            output=result.output, evidence_refs=result.evidence_refs, output_paths=result.output_paths
        )

    @register_action(
        "Write to a colleague, or to the user, and wait for the answer",
        {"recipient": "Whom to write to", "subject": "What it is about", "body": "The letter"},
    )
    async def write_to_colleague(self, recipient: str, subject: str, body: str) -> Outcome:
        """The answer to this very letter."""
        if recipient != subjects.USER:
            await self._require(recipient)
        answer = await self._agent.write_letter(recipient, subject, body)
        return Outcome(output=answer.body or answer.subject, evidence_refs=(answer.id,))

    @register_action(
        "Ask every colleague at work the same question, and hear their answers", {"question": "The question"}
    )
    async def ask_everybody(self, question: str) -> Outcome:
        """The answers by name; who did not answer in time is named too."""
        known = await self._pages.read()
        names = sorted(name for name in known if name not in (self._me, *QUIET))
        if not names:
            raise ActionError("No colleague is at work")
        answers = await asyncio.gather(*(self._ask(name, question) for name in names))
        told = [f"{name}: {answer}" for name, answer in zip(names, answers, strict=True)]
        return Outcome(output="\n\n".join(told))

    async def _ask(self, name: str, question: str) -> str:
        try:
            async with asyncio.timeout(ANSWER_WAIT):
                answer = await self._agent.write_letter(
                    name, "A question to all", question, key=f"all-{name}"
                )
        except TimeoutError:
            return f"(no answer within {ANSWER_WAIT:g} s)"
        except (ActionError, BusError) as error:
            if isinstance(error, Conflict):
                raise
            return f"(could not be asked: {error})"
        return answer.body

    async def _require(self, name: str) -> None:
        known = await self._pages.read()
        if name == self._me:
            raise ActionError("That is you", "Do it yourself, or ask somebody else")
        if name not in known:
            there = ", ".join(sorted(set(known) - {self._me}))
            raise ActionError(f"Nobody named {name[:60]!r} is at work", f"At work are: {there or 'none'}")


def _in_a_line(page: Presence) -> str:
    return excerpt(" ".join(f"{page.description} {page.instructions}".split()), MAX_PAGE)
