"""A visit to the front desk: who asked what, by question or by letter, and how the answer reaches them."""

import msgspec

from shared.contracts import Contract, Email, Question, Response


class Visit(Contract, frozen=True, kw_only=True):
    """What is needed to answer later; ``subject`` is None where it was a question and not a letter.

    ``asked_at`` is when it was written: what it calls "in 20 minutes" counts from there.
    """

    asker: str
    letter_id: str
    text: str
    subject: str | None = None
    session: str = ""
    asked_at: str = ""

    @classmethod
    def of_question(cls, question: Question) -> "Visit":
        """The visit of whoever asks ``question``."""
        return cls(
            asker=question.sender,
            letter_id=question.id,
            text=question.text,
            session=question.user_session_id,
            asked_at=question.created_at,
        )

    @classmethod
    def of_email(cls, email: Email) -> "Visit":
        """The visit of whoever wrote ``email``; where its body is blank its subject is what is asked."""
        return cls(
            asker=email.sender,
            letter_id=email.id,
            text=email.body if email.body.strip() else email.subject,
            subject=email.subject,
            session=email.user_session_id,
            asked_at=email.created_at,
        )

    def reply(self, response: Response) -> Response | Email:
        """``response`` addressed to the asker: to a letter by a letter in the same thread."""
        if self.subject is None:
            return msgspec.structs.replace(response, recipient=self.asker, cause=self.letter_id)
        subject = self.subject if self.subject.lower().startswith("re:") else f"Re: {self.subject}".strip()
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
