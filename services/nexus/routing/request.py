"""A message to the desk, with what is needed to answer it later."""

import re
from typing import Any

import msgspec

from shared import subjects
from shared.contracts import MAX_TEXT, Contract, Conversation, Email, Question, Response, Task, Told
from shared.language.spelling import correct_spelling
from shared.language.utterance import Utterance, read_utterance

REQUEST_KEY = "visit"  # The key of a task's context that holds the request it is for; stored tasks have it


GOAL = re.compile(r"\b(?:goal\s+)?(?P<id>goal_[A-Za-z0-9_]{6,})")
"""The id of a goal, which is too long to be read: a person sees "the goal"."""


class Request(Contract, frozen=True, kw_only=True):
    """A question or an email to nexus, with what is needed to answer it later.

    ``subject`` is None for a question. ``asked_at`` is when it was written: "in 20 minutes" counts from then.
    ``history`` are the messages of its session before it, ``person`` is who of the people wrote it, and
    ``audience`` the same if it is for that one alone.
    ``understood`` is the whole message that a short one was taken for; ``before`` and ``before_route`` are
    the message before it in the conversation and what answered that, ``before_failed`` that it was not done;
    ``joined`` is both messages together if this one may add to that one, ``spoken`` are the reminders
    that the last answer named, ``replaces`` is the schedule or job that this one follows. ``told`` is
    what the conversation told and is not kept, the latest first; ``just_told`` what the last message did;
    ``cited`` is the memory that the last answer quoted first. For a model there are the conversation as it
    stood (``talk``), and with what a model calls the message as the person ``wrote`` it, and which ``part``
    that is: a message may ask for several things.
    """

    asker: str
    letter_id: str
    text: str
    subject: str | None = None
    session: str = ""
    asked_at: str = ""
    history: tuple[dict[str, Any], ...] = ()
    person: str = ""
    audience: str = ""
    understood: str = ""
    before: str = ""
    before_route: str = ""
    before_failed: bool = False
    joined: str = ""
    spoken: tuple[str, ...] = ()
    replaces: str = ""
    told: tuple[Told, ...] = ()
    just_told: str = ""
    cited: str = ""
    talk: Conversation | None = None
    wrote: str = ""
    part: str = ""

    @property
    def key(self) -> str:
        """What ids derive from, so that the same is done once."""
        return f"{self.letter_id}-{self.part}" if self.part else self.letter_id

    @property
    def words(self) -> str:
        """What the person said: the message, and before what a model makes of it those before it."""
        if not self.wrote:
            return self.text
        turns = self.talk.turns if self.talk else ()
        return "\n".join([*(turn.text for turn in turns), self.wrote])

    @property
    def utterance(self) -> Utterance:
        """The message as it was read: once, whoever asks."""
        return read_utterance(self.text)

    @classmethod
    def of(cls, message: Question | Email) -> "Request":
        """The request of a question, or of an email: its body, or its subject if the body is blank."""
        if isinstance(message, Question):
            text, subject, history = message.text, None, message.history
        else:
            history = ()
            text, subject = message.body if message.body.strip() else message.subject, message.subject
        return cls(
            asker=message.sender,
            letter_id=message.id,
            text=correct_spelling(text) if message.sender == subjects.USER else text,
            subject=subject,
            session=message.user_session_id or message.id,
            asked_at=message.created_at,
            history=history,
            person=message.person,
            audience=message.audience,
        )

    @classmethod
    def of_task(cls, task: Task) -> "Request | None":
        """The request that nexus submitted ``task`` for; None if it is for something else."""
        return cls.from_dict(task.context[REQUEST_KEY]) if REQUEST_KEY in task.context else None

    def reply(self, response: Response) -> Response:
        """``response`` addressed to the asker; it says what a short message was taken for."""
        shown = GOAL.sub("the goal", self.understood)
        text = f"(Taken as: {shown})\n{response.text}" if shown else response.text
        return msgspec.structs.replace(
            response,
            text=text[:MAX_TEXT],
            understood=self.understood,
            recipient=self.asker,
            cause=self.letter_id,
            audience=self.audience,
        )

    def as_email(self, response: Response) -> Email:
        """A reply as an email in the thread of the email that the request was."""
        wrote = self.subject or ""
        subject = wrote if not wrote.strip() or wrote.lower().startswith("re:") else f"Re: {wrote}"
        return Email(
            sender="nexus",
            recipient=self.asker,
            subject=subject[:500],
            body=response.text,
            in_reply_to=self.letter_id,
            cause=self.letter_id,
            goal_id=response.goal_id,
            user_session_id=self.session,
        )
