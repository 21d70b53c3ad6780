"""Who of the people may answer a request for approval: by its risk or rule, and whose goal it is."""

from collections.abc import Callable

from services.gateway.call import Gateway
from services.gateway.problems import Failure
from shared.access.scopes import ROLES, People, Person, Scope
from shared.contracts import ApprovalRequest
from shared.operations.approvals import grade_risk
from shared.settings import Settings


def role_for(config: Settings, request: ApprovalRequest) -> str:
    """The least role that answers a request: that for its rule, the family of this, or its risk."""
    names = (request.rule, request.rule.partition(".")[0], grade_risk(request).grade)
    return next((config.approvals[name] for name in names if name in config.approvals), "approver")


def scope_for(config: Settings, request: ApprovalRequest) -> str:
    """The name of the scope that goes with that role."""
    return ROLES[role_for(config, request)].name.lower()


def check_person(gateway: Gateway, person: Person) -> Callable[[ApprovalRequest, bool], None]:
    """What raises Failure (403) for a request that ``person`` may not answer, or may not grant."""

    def check(request: ApprovalRequest, granted: bool) -> None:
        role = role_for(gateway.settings, request)
        if person.scope < ROLES[role]:
            raise Failure(
                403,
                f"This is answered by people with the role {role} at least",
                "Ask one of them, or change [approvals] of mailroom.toml",
            )
        if granted and gateway.settings.second_person and request.goal_id:
            goal = gateway.index.store.goal(request.goal_id)
            while goal is not None and goal.part_of:
                goal = gateway.index.store.goal(goal.part_of)
            if goal is None or goal.person == person.name:
                raise Failure(
                    403,
                    "Nobody grants what their own goal asks for"
                    if goal
                    else "It cannot be told yet whose goal asks for this",
                    "Have another person grant it",
                )

    return check


def find_person(config: Settings, name: str) -> Person:
    """Who replies on a channel that is ``name``'s, or nobody's in particular."""
    people = People(config)
    user = people.find(name or (people.choose() if len(people.read()) == 1 else ""))
    return Person(name, user.scope if user else Scope.NONE if name else Scope.APPROVE)
