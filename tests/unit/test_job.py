"""The names of what a job does: the same in every attempt, different for different things."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from shared.contracts import Task
from shared.errors import BusUnavailable
from shared.messaging.correspondence import PendingReplies
from shared.tasks.context import TaskContext


def job(**context: Any) -> TaskContext:
    task = Task(task_id="t1", text="Do it", assignee="worker", requester="user", context=context)
    return TaskContext(SimpleNamespace(task=task, attempt=1))  # type: ignore[arg-type]


def test_keys_are_counted_by_kind_and_no_two_are_the_same():
    working = job()
    keys = [working.next_key(kind) for kind in ("", "", "t", "t", "all-a1", "all-a") for _ in range(11)]
    assert keys[:2] == ["1", "2"]
    assert len(set(keys)) == len(keys)


def test_a_step_done_again_finds_its_names_also_within_a_step():
    def step(working: TaskContext) -> list[str]:
        with working.scope("t-1-3"):
            outer = [working.next_key("t"), working.own_key("queue")]
            with working.scope(f"{outer[0]}-2"):
                inner = [working.next_key(), working.next_key("l"), working.own_key("queue")]
            return [*outer, *inner, working.next_key("t")]

    first, again = job(), job()
    names = step(first)
    assert step(first) == names
    assert step(again) == names
    assert len(set(names)) == len(names)
    assert names[2] == "t-1-3-t-1-2-1"


def test_a_plan_within_a_step_names_its_own_steps_apart():
    working, names = job(), []
    for number in (1, 2):
        with working.scope(f"t-1-{number}"), working.scope("step-1"):
            names.append(working.next_key())
    assert names == ["t-1-1-step-1-1", "t-1-2-step-1-1"]


async def test_steps_side_by_side_count_apart():
    working = job()

    async def step(name: str) -> list[str]:
        with working.scope(name):
            first = working.next_key()
            await asyncio.sleep(0)
            return [first, working.next_key()]

    assert await asyncio.gather(step("a"), step("b")) == [["a-1", "a-2"], ["b-1", "b-2"]]


@pytest.mark.parametrize(("hops", "counted"), [(2, 2), (-1, 0), ("many", 0), (None, 0)])
def test_hops_are_what_the_task_says_or_none(hops: Any, counted: int):
    assert job(hops=hops).hops == counted


async def test_who_waits_goes_on_waiting_while_the_server_is_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shared.messaging.correspondence.POLL", (0.001, 0.001))
    looks = iter([BusUnavailable("No answer"), None, BusUnavailable("No answer"), "found"])

    async def begin() -> bool:
        return True

    async def look() -> str | None:
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    assert await PendingReplies[str, str]().wait("it", begin, look) == "found"


async def test_two_attempts_at_the_same_may_wait_side_by_side():
    waiting = PendingReplies[str, str]()
    begun = asyncio.Event()

    async def begin() -> bool:
        await begun.wait()
        return True

    async def look() -> str | None:
        return "looked up"

    first = asyncio.create_task(waiting.wait("it", begin, look))
    second = asyncio.create_task(waiting.wait("it", begin, look))
    await asyncio.sleep(0)
    begun.set()
    assert waiting.resolve("it", "given")
    assert await asyncio.wait_for(asyncio.gather(first, second), 5) == ["looked up", "given"]
    assert not waiting.resolve("it", "late")
