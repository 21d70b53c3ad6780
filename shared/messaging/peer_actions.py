"""The actions by which a model reaches other agents: subtasks, mail, and a question to all."""

import asyncio

from shared import subjects
from shared.contracts import TaskStatus
from shared.errors import ActionError, BusError, Conflict
from shared.messaging.correspondence import RequestReply
from shared.messaging.delegation import NO_MAIL, Delegation, Directory
from shared.tasks.actions import Outcome, register_action

ANSWER_WAIT = 300.0  # Seconds an agent has to answer a question to all
MAX_HOPS = 3
"""How often work may be passed on from agent to agent: the last one gets no actions to pass it on, or two
agents might write to each other for ever."""


def offered_actions(hops: int) -> tuple[str, ...]:
    """The names of the actions for a task that was passed on ``hops`` times; only at 0 may all be asked."""
    if hops >= MAX_HOPS:
        return ()
    return ("delegate_task", "write_to_colleague", *(() if hops else ("ask_everybody",)))


class PeerActions:
    """Actions that wait for another agent's answer while the consumer goes on with other messages."""

    def __init__(self, me: str, delegation: Delegation, requests: RequestReply, directory: Directory) -> None:
        self._me = me
        self._delegation = delegation
        self._requests = requests
        self._directory = directory

    @register_action(
        "Submit a task to another agent and wait for the result",
        {"assignee": "The agent's name", "task": "What is to be done, with all that is needed to do it"},
    )
    async def delegate_task(self, assignee: str, task: str) -> Outcome:
        """The colleague's result; raises ActionError if it failed or no agent of that name is at work."""
        await self._require(assignee)
        result = await self._delegation.run(assignee, task)
        if result.status is not TaskStatus.COMPLETED:
            reason = result.error_message or result.status
            raise ActionError(f"{assignee} could not do it: {reason}".rstrip("."), result.output)
        return Outcome(
            output=result.output, evidence_refs=result.evidence_refs, output_paths=result.output_paths
        )

    @register_action(
        "Write to another agent, or to the user, and wait for the answer",
        {"recipient": "Whom to write to", "subject": "What it is about", "body": "The text"},
    )
    async def write_to_colleague(self, recipient: str, subject: str, body: str) -> Outcome:
        """The answer to this email."""
        if recipient != subjects.USER:
            await self._require(recipient)
        answer = await self._requests.send(recipient, subject, body)
        return Outcome(output=answer.body or answer.subject, evidence_refs=(answer.id,))

    @register_action(
        "Ask every running agent the same question, and wait for the answers", {"question": "The question"}
    )
    async def ask_everybody(self, question: str) -> Outcome:
        """The answers by agent; an agent that did not answer in time is listed too."""
        known = await self._directory.read()
        names = sorted(name for name in known if name not in (self._me, *NO_MAIL))
        if not names:
            raise ActionError("No colleague is at work")
        answers = await asyncio.gather(*(self._ask(name, question) for name in names))
        lines = [f"{name}: {answer}" for name, answer in zip(names, answers, strict=True)]
        return Outcome(output="\n\n".join(lines))

    async def _ask(self, name: str, question: str) -> str:
        try:
            async with asyncio.timeout(ANSWER_WAIT):
                answer = await self._requests.send(name, "A question to all", question, key=f"all-{name}")
        except TimeoutError:
            return f"(no answer within {ANSWER_WAIT:g} s)"
        except Conflict:
            raise
        except (ActionError, BusError) as error:
            return f"(could not be asked: {error})"
        return answer.body

    async def _require(self, name: str) -> None:
        known = await self._directory.read()
        if name == self._me:
            raise ActionError("That is you", "Do it yourself, or ask another agent")
        if name not in known:
            at_work = ", ".join(sorted(set(known) - {self._me}))
            raise ActionError(f"Nobody named {name[:60]!r} is at work", f"At work are: {at_work or 'none'}")
