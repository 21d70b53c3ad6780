"""What people want of agents, as the conductor records it: pure functions."""

from shared import subjects
from shared.agent.control import UNPAUSABLE
from shared.contracts import AgentControl
from shared.errors import Reject
from shared.tasks.submission import Submission


def next_control(known: AgentControl | None, submission: Submission, seq: int) -> AgentControl | None:
    """The record after what ``submission``, stored as ``seq``, wants; None if that is done already.

    Raises Reject for an agent that cannot be paused.
    """
    wanted = submission.control
    assert wanted is not None
    if wanted.do == "pause" and (why := UNPAUSABLE.get(wanted.agent)):
        raise Reject(f"{wanted.agent} cannot be paused: {why}", "It can be restarted")
    if wanted.agent in subjects.RESERVED_NAMES:
        raise Reject(f"{wanted.agent!r} is no agent that can be controlled", "'mailroom agents' lists them")
    request_id = submission.request_id or f"control-{seq}"
    before = known or AgentControl(agent=wanted.agent, do=wanted.do)
    if known is not None and known.request_id == request_id:
        return None
    return AgentControl(
        sender=subjects.CONDUCTOR,
        agent=wanted.agent,
        do=wanted.do,
        paused=before.paused if wanted.do == "restart" else wanted.do == "pause",
        restarts=before.restarts + (wanted.do == "restart"),
        request_id=request_id,
        asked_by=submission.person,
    )
