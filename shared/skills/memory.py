"""Memory as a skill: remember something, and recall what is relevant to a question."""

from shared import subjects
from shared.contracts import Hit, Node, Source
from shared.errors import ActionError, BusError
from shared.memory import WriteRefused
from shared.reasoning.recall import SKILL_CHANNEL
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.tasks.speaker import Speaker
from shared.text.display import shorten, shorten_id
from shared.text.prose import split_title
from shared.web.quoting import clean

MOST = 50  # The most memories of one answer
EXCERPT = 600  # Characters of one memory in the output


class MemorySkill(Skill):
    """Remembers and recalls."""

    @register_action(
        "Remember something for the whole team, for good",
        {
            "text": "What is to be remembered: a full sentence that says enough to be understood later",
            "kind": "fact, decision, preference, pattern, observation, goal or event",
            "tags": "Words it can be found by",
            "importance": "0 to 1",
        },
    )
    async def remember(
        self, text: str, kind: str = "fact", tags: tuple[str, ...] = (), importance: float = 0.5
    ) -> Outcome:
        """The node's id in data key ``id``; ActionError with the reason if memory does not take it."""
        if not text.strip():
            raise ActionError("There is nothing to remember", "Say it in a sentence")
        title, body = split_title(text)
        speaker, is_asked = (
            Speaker.of(self.context.task),
            self.context.task.context.get("action") == "remember",
        )
        if is_asked and not speaker.may(personal=True):
            raise ActionError(
                f"What {speaker.name} says is kept under its own name", "Have it add that to memory itself"
            )
        # The same for another attempt at the same task: a node of an id that is there is not stored twice.
        task, name = self.context.task, self.context.profile.name
        is_told = is_asked and speaker.is_person and name == subjects.NEXUS  # what it keeps is the person's
        node_id = self.context.bus.derive_id("remember", task.requester, task.task_id, kind, text)
        try:
            node = Node(
                id=node_id,
                kind=kind,
                title=title,
                body=body,
                tags=tags,
                importance=importance,
                source=Source(
                    agent=subjects.USER if is_told else name, session=task.goal_id, channel=SKILL_CHANNEL
                ),
                metadata={"task_id": task.task_id},
            )
        except ValueError as error:
            raise ActionError(f"That cannot be remembered: {error}") from None
        try:
            await (self.context.memory.keep_said if is_told else self.context.memory.add)(node)
        except WriteRefused as refused:
            existing = refused.rejection.existing if refused.rejection else None
            known = f" (memory node {existing.id})" if existing else ""
            raise ActionError(f"{refused.cause.rstrip('.')}{known}", refused.cure) from None
        except BusError as error:
            raise ActionError(
                f"It may not have been remembered. {error.cause}", error.cure or "Recall it, and try again"
            ) from None
        return Outcome(
            output=f"Remembered: {shorten(title, EXCERPT)} (memory node {shorten_id(node.id)})",
            data={"id": node.id},
            evidence_refs=(node.id,),
        )

    @register_action(
        "Recall what the team remembers about something",
        {"question": "What is asked about, in plain words", "limit": "How many memories at most, 1 to 50"},
    )
    async def recall(self, question: str, limit: int = 8) -> Outcome:
        """The nearest memories with their ids, best first, in data key ``memories``; none is an answer."""
        if not question.strip():
            raise ActionError("The question is empty", "Say what is asked about")
        if not 1 <= limit <= MOST:
            raise ActionError(f"limit is {limit}", f"Ask for 1 to {MOST} memories")
        try:
            hits = await self.context.memory.search(question[:2_000], limit=limit)
        except BusError as error:
            raise ActionError(f"Memory cannot be asked. {error.cause}", error.cure) from None
        lines = [f"- [{hit.node.id}] {_state(hit)}" for hit in hits]
        head = (
            f"{len(hits)} memories near to that, best first:"
            if hits
            else "Memory holds nothing near to that."
        )
        return Outcome(
            output="\n".join([head, *lines]),
            data={"memories": [_as_entry(hit) for hit in hits]},
            evidence_refs=tuple(hit.node.id for hit in hits),
        )


def _state(hit: Hit) -> str:
    node = hit.node
    if node.body.startswith(node.title):
        return clean(node.body, EXCERPT)
    return clean(f"{node.title}: {node.body}" if node.body else node.title, EXCERPT)


def _as_entry(hit: Hit) -> dict[str, object]:
    node = hit.node
    return {
        "id": node.id,
        "kind": node.kind,
        "title": node.title,
        "body": node.body[:2_000],
        "tags": list(node.tags),
        "score": hit.score,
        "created_at": node.created_at,
    }
