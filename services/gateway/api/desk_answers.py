"""An answer of the front desk as it is stored, which commands print."""

from starlette.responses import Response as HttpResponse

from services.gateway.api.desk import API
from services.gateway.call import Call
from services.gateway.conversations import read_response, read_turn, require_readable
from services.gateway.problems import not_found
from services.gateway.routing import JSON, Endpoint
from shared.access.scopes import Scope
from shared.contracts import Response


async def read_desk_answer(call: Call) -> HttpResponse:
    """The answer to a question, with the memories that it was made from."""
    session, message = call.path["id"], call.path["message"]
    require_readable(call.gateway, session, call.person)
    turn = await read_turn(call.gateway, message)
    found = await read_response(call.gateway, message)
    if turn is None or turn.session_id != session or found is None:
        raise not_found(f"answer to message {message!r} in session {session!r}")
    return HttpResponse(found[0].to_json(), 200, media_type=JSON)


ENDPOINTS = (
    Endpoint(
        "GET",
        f"{API}/{{id}}/messages/{{message}}/answer",
        read_desk_answer,
        scope=Scope.READ,
        tag="desk",
        contracts=(Response,),
    ),
)
