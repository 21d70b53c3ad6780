"""What the HTTP API refuses at once, with the cause and what helps."""

from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from services.gateway.api.goals import GoalsQuery, require_whole_paths
from services.gateway.problems import Failure
from services.gateway.routing import decode_body, decode_query
from shared.views.listed import NewGoal


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("Run the tests of ./bug", {}),
        ("Check up on ~/src/mine", {}),
        ("Run the tests of '../my project'", {}),
        ("Run the tests of .", {}),
        ("Lint in .. please", {}),
        ("Try", {"action": "try_patch", "repo": "bug"}),
        ("Try", {"action": "run_tests", "params": {"repo": "./bug"}}),
    ],
)
def test_a_relative_path_is_refused(text: str, context: dict[str, Any]) -> None:
    with pytest.raises(Failure, match="relative path") as refused:
        require_whole_paths(text, context)
    assert refused.value.status == 422
    assert "whole path" in refused.value.cure


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("Run the tests of /srv/bug", {}),
        ("In /srv/bug, run ./build.sh and ../check", {}),
        ("Read https://example.org/a and compare it with ./b", {}),
        ("What is new in AI ... today? It began at 5.", {}),
        ("Do you agree . Or not", {}),
        ("1/2 of and/or ~5", {}),
        ("Try", {"repo": "/srv/bug", "folder": "copy", "params": 3}),
        ("Try", {"repo": 4}),
        ("Run the tests of ./bug", {"action": "run_tests", "params": {"repo": "/srv/bug"}}),
        ("Run the tests of ./bug", {"repo": "/srv/bug"}),
    ],
)
def test_other_texts_are_not(text: str, context: dict[str, Any]) -> None:
    require_whole_paths(text, context)


def request(body: bytes = b"", query: bytes = b"") -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"application/json")]
    return Request({"type": "http", "method": "POST", "headers": headers, "query_string": query}, receive)


async def test_an_unknown_field_is_refused_with_the_nearest_and_all_of_them() -> None:
    with pytest.raises(Failure, match="no field 'txt'") as refused:
        await decode_body(request(b'{"txt": "Look"}'), NewGoal)
    assert refused.value.status == 422
    assert refused.value.cure == (
        "Did you mean 'text'? There are: text, context, context_refs, evidence_refs, priority, deadline, "
        "goal_id, is_resolved, budget"
    )
    with pytest.raises(Failure, match="no field 'extra'") as refused:
        await decode_body(request(b'{"text": "Look", "extra": 1}'), NewGoal)
    assert refused.value.cure == (
        "There are: text, context, context_refs, evidence_refs, priority, deadline, goal_id, is_resolved, "
        "budget"
    )
    with pytest.raises(msgspec.ValidationError, match="text"):
        await decode_body(request(b'{"text": 5}'), NewGoal)
    with pytest.raises(Failure, match="no parameter 'stat'") as refused:
        decode_query(request(query=b"stat=1"), GoalsQuery)
    assert "status" in refused.value.cure
