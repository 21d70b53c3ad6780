"""Errors as problem details (RFC 9457): what went wrong, and what helps."""

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from shared.errors import (
    BusUnavailable,
    ConfigError,
    Conflict,
    Denied,
    MailroomError,
    NotFound,
    Refused,
    TooLate,
)


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error: its HTTP status, the cause in one sentence, and the cure if there is one."""

    title: str
    status: int
    detail: str = ""
    cure: str = ""
    type: str = "about:blank"


class Failure(MailroomError):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, status: int, cause: str, cure: str = "") -> None:
        super().__init__(cause, cure)
        self.status = status


def not_found(what: str, cure: str = "") -> Failure:
    """The failure for something that is not there."""
    return Failure(404, f"There is no {what}", cure)


TITLES = {
    401: "Not signed in",
    403: "Not allowed",
    408: "Not complete in time",
    413: "Too large",
    421: "Unknown host",
    422: "Not valid",
    500: "Internal error",
    503: "Not available now",
}
"""Where the phrase of the status says too little."""


def title_of(status: int) -> str:
    """The title of a problem."""
    return TITLES.get(status) or HTTPStatus(status).phrase.capitalize()


def to_response(status: int, detail: str, cure: str = "", headers: dict[str, str] | None = None) -> Response:
    """The response that reports a problem."""
    problem = Problem(title=title_of(status), status=status, detail=detail, cure=cure)
    return Response(
        msgspec.json.encode(problem), status, headers=headers, media_type="application/problem+json"
    )


def status_of(error: MailroomError) -> int:
    """The HTTP status for an error of Mailroom."""
    match error:
        case Failure():
            return error.status
        case NotFound():
            return 404
        case Conflict() | TooLate() | Refused():
            return 409
        case ConfigError():
            return 422
        case BusUnavailable():
            return 503
        case Denied():
            return 403
    return 400
