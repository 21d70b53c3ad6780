"""Letters: what agents and people write to each other."""

from shared.contracts.base import MAX_TEXT, Envelope, require_count, require_name, require_token


class Email(Envelope, frozen=True, kw_only=True, tag="email.v1"):
    """A letter in natural language; ``in_reply_to`` (an Email's id) makes threads.

    ``hops`` is how many agents wrote to one another before this one, each because of the letter before.
    """

    sender: str
    recipient: str
    subject: str = ""
    body: str
    in_reply_to: str = ""
    user_session_id: str = ""
    hops: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name("sender", self.sender)
        require_name("recipient", self.recipient)
        if len(self.subject) > 500:
            raise ValueError(f"subject has {len(self.subject):,} characters; the limit is 500")
        if len(self.body) > MAX_TEXT:
            raise ValueError(f"body has {len(self.body):,} characters; the limit is {MAX_TEXT:,}")
        if self.in_reply_to:
            require_token("in_reply_to", self.in_reply_to)
        require_count("hops", self.hops)


class CancelGoal(Envelope, frozen=True, kw_only=True, tag="cancel_goal.v1"):
    """A request to the conductor to end a goal and every task of it that is still open."""

    reason: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("goal_id", self.goal_id)
