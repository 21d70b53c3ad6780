"""A message to the desk, with what is needed to answer it later."""

from typing import Any

import msgspec

from shared.contracts import Contract, Email, Question, Response, Task

REQUEST_KEY = "visit"
"""The key of a task's context that holds the request it is for; stored tasks have it."""


class Request(Contract, frozen=True, kw_only=True):
    """A question or an email to nexus, with what is needed to answer it later.

    ``subject`` is None for a question. ``asked_at`` is when it was written: "in 20 minutes" counts from then.
    ``history`` are the messages of its session before it.
    """

    asker: str
    letter_id: str
    text: str
    subject: str | None = None
    session: str = ""
    asked_at: str = ""
    history: tuple[dict[str, Any], ...] = ()

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
            text=text,
            subject=subject,
            session=message.user_session_id,
            asked_at=message.created_at,
            history=history,
        )

    @classmethod
    def of_task(cls, task: Task) -> "Request | None":
        """The request that nexus submitted ``task`` for; None if it is for something else."""
        return cls.from_dict(task.context[REQUEST_KEY]) if REQUEST_KEY in task.context else None

    def reply(self, response: Response) -> Response | Email:
        """``response`` addressed to the asker: an email in the same thread if the request was one."""
        if self.subject is None:
            return msgspec.structs.replace(response, recipient=self.asker, cause=self.letter_id)
        is_reply = not self.subject.strip() or self.subject.lower().startswith("re:")
        subject = self.subject if is_reply else f"Re: {self.subject}"
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
