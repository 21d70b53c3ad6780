"""What needs a person's word: what is asked, what was said, and how the policy judged."""

from enum import StrEnum

from shared.contracts.base import Envelope, require_text, require_timestamp, require_token


class CommandVerdict(StrEnum):
    """What the policy says of a command."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class CommandJudged(Envelope, frozen=True, kw_only=True, tag="command_judged.v1"):
    """A command the policy did not simply allow: denied, or left to a person."""

    command: str
    verdict: CommandVerdict
    rule: str
    why: str
    task_id: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("command", self.command)
        require_text("rule", self.rule, 100)


class ApprovalRequest(Envelope, frozen=True, kw_only=True, tag="approval_request.v1"):
    """An agent asks whether it may do something; without an answer by ``expires_at`` it may not.

    ``approval_id`` follows from the agent, ``what`` and the goal (the task, where another agent handed it
    out), so that the same is asked once for a goal and a grant reaches no further.
    """

    approval_id: str
    task_id: str = ""
    what: str
    rule: str = ""
    why: str = ""
    expires_at: str

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("approval_id", self.approval_id)
        require_text("what", self.what)
        require_timestamp("expires_at", self.expires_at)


class ApprovalAnswer(Envelope, frozen=True, kw_only=True, tag="approval_answer.v1"):
    """What a person said; ``note`` is for the agent."""

    approval_id: str
    granted: bool
    note: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("approval_id", self.approval_id)
