"""Models: which one each agent asks, what may leave for it, and what left."""

import asyncio

from services.gateway.call import Call
from services.gateway.routing import API, Endpoint
from shared.access.scopes import Scope
from shared.errors import NotFound
from shared.llm.sent import ModelList, Sent, read_models, read_sent
from shared.queries.results import expand_goal_id


async def list_models(call: Call) -> ModelList:
    """Which models each agent asks, which kinds of text may go to each, and what went today (UTC)."""
    return ModelList(agents=await asyncio.to_thread(read_models, call.gateway.settings.sent))


async def show_sent(call: Call) -> Sent:
    """What was sent to models for a goal or a task: each request, where it went, and its texts as sent.

    The name may be the beginning or the end of a goal's id, and ``last`` is the latest goal.
    """
    name = await expand_goal_id(call.gateway.bus, call.path["name"])
    sent = await asyncio.to_thread(read_sent, call.gateway.settings.sent, name)
    store = call.gateway.index.store
    is_seen = store.all_of_task(name, 1) or store.goal(name) is not None
    if not is_seen and (call.person.audience or not sent.requests):  # what is another's is only in files
        raise NotFound(f"There is no goal or task {name[:130]!r}", "'mailroom tasks --all' lists the goals")
    return sent


ENDPOINTS = (
    Endpoint("GET", f"{API}/models", list_models, scope=Scope.READ, tag="models"),
    Endpoint("GET", f"{API}/sent/{{name:path}}", show_sent, scope=Scope.READ, tag="models"),
)
