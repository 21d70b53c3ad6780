"""A goal whose first model is away: another answers, and everybody is told which, and since when."""

import asyncio
import json
import socket
from pathlib import Path

import pytest

from shared.contracts import TaskStatus
from tests.support.model_formats import Answer, Request
from tests.support.model_server import serve_model
from tests.support.office import Office

PLAN = {"tasks": [{"name": "greeting", "assignee": "frontier", "text": "Say how people greet in Chur"}]}


def answer(request: Request) -> Answer:
    """A model that plans one task, does it at once, approves of it and sums it up."""
    said = json.dumps(request.body)
    counts = {"input_tokens": 1_000, "cached_tokens": 600, "output_tokens": 10}
    if '"finish_task"' in said:
        return Answer(calls=[("finish_task", {"result": "They say Allegra."})], **counts)
    if "Make a plan" in said:
        return Answer(text=json.dumps(PLAN), **counts)
    if '"citations"' in said:
        return Answer(text='{"answer": "They say Allegra.", "citations": ["greeting"]}', **counts)
    return Answer(text='{"approved": true, "criteria": [], "reasons": [], "redo": []}', **counts)


@pytest.mark.timeout(180)
async def test_who_answered_instead_of_whom_is_told_everywhere(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        away = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with serve_model(by=answer) as server:
            office = Office(
                tmp_path,
                MAILROOM_BRAIN="openai:big",
                MAILROOM_BRAIN_URL=away,
                MAILROOM_BRAIN_FALLBACK=f"openai:spare@{server.url}",
                MAILROOM_PRICES="openai:spare=10/10/1",
            )
            try:
                await office.open()
                await asyncio.to_thread(office.server.start_gateway)
                await office.submit({"text": "How do people greet each other in Chur?", "goal_id": "g1"})
                goal = await office.finished("g1", 120)
                assert goal.status is TaskStatus.COMPLETED, (goal.reason, goal.answer)
                shown = await asyncio.to_thread(office.server.mailroom, "show", "g1")
                inside = await asyncio.to_thread(office.server.mailroom, "show", "g1", "--thoughts")
            finally:
                await office.close()
    told = " ".join(shown.stdout.split())
    assert "60 % of what was read came from the cache" in told
    assert "openai:spare answered instead of openai:big since 20" in told
    assert "$0.0" in told
    assert "instead of openai:big, which could not answer" in inside.stdout
    assert "(60 % cached)" in inside.stdout
    report = Path(goal.report_path).read_text()
    assert "- 60 % of what was read came from the cache" in report
    assert "- openai:spare answered instead of openai:big since 20" in report
