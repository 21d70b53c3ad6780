"""A cancellation that comes in the same turn of the event loop as what was waited for."""

import asyncio

import pytest

from shared.bus.connecting import keeping_cancellation


async def test_it_is_not_lost_to_a_result_of_the_same_turn() -> None:
    waited_for: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        with keeping_cancellation():
            return await asyncio.wait_for(waited_for, 10)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    waited_for.set_result("the result")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_done_after_a_cancellation_is_done() -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            with keeping_cancellation():
                await asyncio.sleep(0)
                cleaned.append("up")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["up"]


async def test_a_limit_of_time_is_still_one() -> None:
    async def work() -> None:
        async with asyncio.timeout(0.01):
            with keeping_cancellation():
                await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        await work()
