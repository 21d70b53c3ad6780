"""Webhooks that come in: a signed delivery submits a goal, once."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.gateway.context import Gateway
from services.gateway.hooks.template import fill
from services.gateway.problems import Failure, status_of, to_response
from services.gateway.routing import JSON
from shared.access.hooks import HookFile, Incoming
from shared.contracts import AccessAct
from shared.delivery.signing import verify, verify_github
from shared.errors import ConfigError, MailroomError
from shared.operations.submission import derive_goal_id, make_body, submit_keyed

NO_SECRET = "no hook has this secret"  # noqa: S105  # with what is not known, the same is computed


def hook_routes(gateway: Gateway) -> list[Route]:
    """The route of all incoming webhooks."""
    hooks = HookFile(gateway.settings)

    async def deliver(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            goal_id = await _submit(gateway, hooks, name, request)
        except Failure as failure:
            gateway.access.note(
                AccessAct.HOOK_REFUSED,
                address=request.state.address,
                about=name[:100],
                reason=failure.cause,
            )
            return to_response(failure.status, failure.cause, failure.cure)
        except ConfigError:
            return to_response(503, "The webhooks cannot be read", "The gateway's log says why")
        except MailroomError as error:
            return to_response(status_of(error), error.cause, error.cure)
        return Response(msgspec.json.encode({"goal_id": goal_id}), 202, media_type=JSON)

    return [Route("/hooks/{name}", deliver, methods=["POST"])]


async def _submit(gateway: Gateway, hooks: HookFile, name: str, request: Request) -> str:
    """Submit the goal of a delivery; raises Failure if it is refused."""
    body = await request.body()
    hook = hooks.read().incoming.get(name)
    delivery = _verify(hook, request, body)
    if hook is None or not delivery:
        raise Failure(
            401,
            "There is no such webhook, or the delivery is not signed with its secret within five minutes",
            "docs/gateway-security.md describes the signature",
        )
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failure(422, f"The body is not JSON: {error}") from None
    text, context = fill(hook.text, hook.context, content)
    person = f"webhook:{name}"
    goal_id = derive_goal_id(gateway.bus, person, delivery)
    submission = make_body(text, context, goal_id, person=person) | {"priority": hook.priority}
    await submit_keyed(gateway.bus, submission, delivery)
    return goal_id


def _verify(hook: Incoming | None, request: Request, body: bytes) -> str:
    check = verify_github if hook and hook.form == "github" else verify
    return check(hook.secret if hook else NO_SECRET, request.headers, body)
