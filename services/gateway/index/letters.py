"""Questions to the front desk and its answers, as the index keeps them: which belongs to which."""

from typing import NamedTuple

import msgspec

from shared import subjects
from shared.bus import Stored
from shared.contracts import TOKEN

_QUESTIONS = subjects.mail(subjects.NEXUS, subjects.USER)
_ANSWERS = subjects.mail(subjects.USER, subjects.NEXUS)


class Letter(NamedTuple):
    """A question (in ``session``; ``cause`` is empty) or an answer (to the question ``cause``)."""

    id: str
    session: str
    cause: str


class _Body(msgspec.Struct):
    type: str = ""
    id: str = ""
    cause: str = ""
    user_session_id: str = ""


_decoder = msgspec.json.Decoder(_Body)


def read_letter(stored: Stored) -> Letter | None:
    """The question or answer that a message is; None for anything else.

    A question without a session of its own begins one that has its id.
    """
    if stored.subject not in (_QUESTIONS, _ANSWERS):
        return None
    try:
        body = _decoder.decode(stored.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if stored.subject == _QUESTIONS and body.type == "question.v1":
        session = body.user_session_id or body.id
        return Letter(body.id, session, "") if TOKEN.fullmatch(session) else None
    if stored.subject == _ANSWERS and body.type == "response.v1" and body.cause:
        return Letter(body.id, "", body.cause)
    return None
