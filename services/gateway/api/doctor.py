"""The checks of the installation that the gateway can make."""

from pathlib import Path

import msgspec

from services.gateway.call import Call
from services.gateway.index.index import LogIndex
from services.gateway.routing import Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.queries.checks import (
    ANSWER_WAIT,
    Check,
    check_agents,
    check_deliver,
    check_disk,
    check_memory,
    check_rates,
    check_seals,
    check_server,
    check_streams,
    fail,
    ok,
    run_checks,
    warn,
)
from shared.settings import Settings

SERVICES = Path(__file__).parents[2]


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the checks, and the worst of their verdicts."""

    verdict: str
    checks: list[Check]


async def check_installation(call: Call) -> Checks:
    """Check server, streams, agents, memory and disk, and say how to fix problems.

    ``mailroom doctor`` checks more: keys, commits, models and the sandbox, on the machine it runs on.
    """
    bus, agents = call.gateway.bus, _installed(call.gateway.settings)
    checks = [check_server(bus), check_disk(call.gateway.settings), _check_index(call.gateway.index)]
    probes = {
        "streams": check_streams(bus, call.gateway.settings, agents),
        "agents": check_agents(bus, call.gateway.settings, agents),
        "memory": check_memory(bus),
        "rates": check_rates(bus),
        "deliver": check_deliver(bus, call.gateway.settings),
        "seals": check_seals(bus, call.gateway.settings),
    }
    await run_checks(probes, checks.append, ANSWER_WAIT)
    verdicts = {check.verdict for check in checks}
    worst = next(each for each in ("fail", "warn", "ok") if each in verdicts)
    return Checks(verdict=worst, checks=checks)


def _check_index(index: LogIndex) -> Check:
    folder = index.store.path.parent
    if index.problem:
        fix = f"Free space for {folder}; it goes on by itself"
        return fail("index", f"new messages cannot be indexed: {index.problem}", fix)
    if index.behind:
        return warn("index", f"{index.behind:,} messages are not indexed yet", "Wait until it is done")
    return ok("index", f"{index.store.count:,} messages in {index.store.path}")


def _installed(config: Settings) -> list[str]:
    """The agents that come with Mailroom, and those that have a key here: in a container one alone has."""
    keys = {path.stem for path in config.keys.glob("*.nk")} - {subjects.USER, subjects.ADMIN, subjects.ERASER}
    return sorted(keys | {path.parent.name for path in SERVICES.glob("*/profile.yaml")})


ENDPOINTS = (Endpoint("GET", "/api/v1/doctor", check_installation, scope=Scope.READ, tag="figures"),)
