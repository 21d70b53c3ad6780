"""The front desk: conversations, and answers as they are made."""

from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from starlette.responses import Response, StreamingResponse

from services.gateway.call import Call
from services.gateway.conversations import (
    ask,
    follow,
    list_sessions,
    read_session,
    read_turn,
    require_own,
    require_readable,
    stop,
    wait_for_answer,
)
from services.gateway.problems import Failure, not_found
from services.gateway.routing import JSON, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import AnswerWords
from shared.views.desk import Asked, Note, Session, SessionSummary, Turn

API = "/api/v1/desk/sessions"
STREAM = "text/event-stream"
LONGEST_WAIT = 120.0  # Seconds that a request may wait for an answer
KIND = {Note: b"note", AnswerWords: b"words", Turn: b"answer"}

Cursor = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class SessionsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of conversations: those that went on before a cursor (0: the latest)."""

    before: Cursor = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 30


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of conversations; ``next`` is the cursor of the following one, 0 at the end."""

    sessions: list[SessionSummary]
    next: int


class TurnsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of a conversation before a cursor (0: the latest)."""

    before: Cursor = 0


class DeskMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person says to the front desk."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds to wait for the answer, if it is not streamed."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 30.0


async def list_desk_sessions(call: Call, query: SessionsQuery) -> SessionPage:
    """The person's conversations with the front desk, the latest first; administrators see all."""
    found = list_sessions(call.gateway, call.person, query.before, query.limit)
    return SessionPage(sessions=found, next=found[-1].next if len(found) == query.limit else 0)


async def read_desk_session(call: Call, query: TurnsQuery) -> Session:
    """A conversation: its questions and answers, oldest first."""
    session = call.token("id", "session")
    require_readable(call.gateway, session, call.person)
    return await read_session(call.gateway, session, query.before)


async def say_to_desk(call: Call, query: WaitQuery, body: DeskMessage) -> Response:
    """Say something in a conversation, and get the answer as it is made.

    The client that begins a session chooses its id. With ``Accept: text/event-stream`` the answer is a
    stream: ``accepted`` at once, a ``note`` for each step of an agent, ``words`` as a model writes them, and
    ``answer`` with the whole turn, which is what counts.
    Otherwise it is the turn as JSON: 200 with the answer, or 202 with its Location if it takes longer than
    ``wait`` seconds. The Idempotency-Key becomes the id of the message.
    """
    session = call.token("id", "session")
    if not body.text.strip():
        raise Failure(422, "The message is empty", "Say something")
    require_own(call.gateway, session, call.person)
    asked = await ask(call.gateway, call.message_id(), body.text, call.person.name, session, remember=True)
    return await _answer(call, asked, query.wait)


async def read_desk_turn(call: Call, query: WaitQuery) -> Response:
    """One question with its answer, or what is done for it as a stream; as ``say_to_desk`` answers."""
    message_id, session = call.token("message", "message"), call.token("id", "session")
    require_readable(call.gateway, session, call.person)
    turn = await _find_turn(call, session, message_id)
    row = call.gateway.index.store.message(subjects.OFFICE, turn.seq)
    position = row.position if row else str(call.gateway.index.position)
    asked = Asked(id=message_id, session_id=session, position=position)
    return await _answer(call, asked, query.wait)


async def stop_desk_turn(call: Call) -> Turn:
    """End what is done for a question, and the goal that it started; answers with the turn as it is then."""
    message_id, session = call.token("message", "message"), call.token("id", "session")
    require_own(call.gateway, session, call.person)
    turn = await _find_turn(call, session, message_id)
    return await stop(call.gateway, session, message_id, call.person.name) or turn


async def _find_turn(call: Call, session: str, message_id: str) -> Turn:
    turn = await read_turn(call.gateway, message_id)
    if turn is None or turn.session_id != session:
        raise not_found(f"message {message_id!r} in session {session!r}")
    return turn


async def _answer(call: Call, asked: Asked, seconds: float) -> Response:
    location = f"{API}/{asked.session_id}/messages/{asked.id}"

    async def make_frames() -> AsyncGenerator[bytes, None]:
        yield _frame(b"accepted", asked)
        async for step in follow(call.gateway, asked):
            yield _frame(KIND[type(step)], step)

    if STREAM in call.request.headers.get("accept", ""):
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Location": location}
        return StreamingResponse(make_frames(), media_type=STREAM, headers=headers)
    turn = await wait_for_answer(call.gateway, asked, seconds)
    if turn is None or turn.state == "waiting":
        return Response(msgspec.json.encode(turn or asked), 202, {"Location": location}, JSON)
    return Response(msgspec.json.encode(turn), 200, {"Location": location}, JSON)


def _frame(event: bytes, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event, msgspec.json.encode(content))


ENDPOINTS = (
    Endpoint("GET", API, list_desk_sessions, scope=Scope.READ, tag="desk"),
    Endpoint("GET", f"{API}/{{id}}", read_desk_session, scope=Scope.READ, tag="desk"),
    Endpoint("POST", f"{API}/{{id}}/messages", say_to_desk, scope=Scope.SUBMIT, tag="desk", may_wait=True),
    Endpoint("GET", f"{API}/{{id}}/messages/{{message}}", read_desk_turn, scope=Scope.READ, tag="desk"),
    Endpoint(
        "POST", f"{API}/{{id}}/messages/{{message}}/stop", stop_desk_turn, scope=Scope.SUBMIT, tag="desk"
    ),
)
