"""Goals of the agent ``slow``, for tests of pages."""

from typing import Any

import httpx2

from tests.support.waiting import eventually


def waiting(text: str, seconds: float = 0.0) -> dict[str, Any]:
    """A goal that has ``slow`` wait."""
    return {"text": text, "context": {"assignee": "slow", "action": "wait", "params": {"seconds": seconds}}}


async def submit(client: httpx2.AsyncClient, body: dict[str, Any]) -> str:
    answer = await client.post("/goals", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["goal_id"])


async def cancel_all(client: httpx2.AsyncClient) -> None:
    """Cancel the goals that other tests left at work, and wait until they have ended."""

    async def none_works() -> bool:
        goals = (await client.get("/goals", params={"limit": 200})).json()["goals"]
        left = [goal["goal_id"] for goal in goals if goal["state"] != "ended"]
        for goal_id in left:
            await client.post(f"/goals/{goal_id}/cancel", json={})
        return not left

    await eventually(none_works)


async def find(
    client: httpx2.AsyncClient, text: str, state: str = "", timeout: float = 15.0
) -> dict[str, Any]:
    """The goal with these words, as soon as it is in this state."""

    async def found() -> dict[str, Any] | None:
        goals = (await client.get("/goals", params={"text": text})).json()["goals"]
        return next((goal for goal in goals if state in ("", goal["state"])), None)

    goal: dict[str, Any] = await eventually(found, timeout)
    return goal
