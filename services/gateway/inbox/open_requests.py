"""The requests for approval that wait for a person, read again only when the log has something about them."""

from datetime import UTC, datetime
from weakref import WeakKeyDictionary

import msgspec

from services.gateway.context import Gateway
from services.gateway.index.index import LogIndex
from shared.operations.approvals import ApprovalPage, read_approvals
from shared.text.times import parse_time
from shared.views.approvals import Approval


class _Known(msgspec.Struct, frozen=True):
    """What was read, and the number of the last message of the index that could change it."""

    page: ApprovalPage
    number: int


_known: WeakKeyDictionary[LogIndex, _Known] = WeakKeyDictionary()

_LAST = "SELECT coalesce(max(number), 0) FROM messages WHERE type = 'approval'"


async def read_requests(gateway: Gateway) -> ApprovalPage:
    """The latest requests for approval of each agent with their states at this moment."""
    ((number,),) = gateway.index.store.query(_LAST)
    known = _known.get(gateway.index)
    if known is None or known.number != number:
        known = _known[gateway.index] = _Known(await read_approvals(gateway.bus), number)
    return known.page._replace(approvals=[_as_of_now(gateway, each) for each in known.page.approvals])


def forget_requests(gateway: Gateway) -> None:
    """Have the requests read again, because one was just answered."""
    _known.pop(gateway.index, None)


async def read_open_requests(gateway: Gateway) -> list[Approval]:
    """Those of them that wait for an answer."""
    return [each for each in (await read_requests(gateway)).approvals if each.state == "waiting"]


def _as_of_now(gateway: Gateway, approval: Approval) -> Approval:
    """An approval whose time may have run out, or whose goal may have ended, since it was read."""
    if approval.state != "waiting":
        return approval
    if parse_time(approval.request.expires_at) <= datetime.now(UTC):
        return msgspec.structs.replace(approval, state="expired")
    goal_id = approval.request.goal_id
    goal = gateway.index.store.goal(goal_id) if goal_id else None
    ended = goal is not None and goal.status.final
    return msgspec.structs.replace(approval, state="over") if ended else approval
