"""The naive loop: claim, result, status and acknowledgement of each task one after another, each awaited.

``--window`` tasks are in hand at once, so that it does not wait where another task could go on.
"""

import argparse
import asyncio
import json

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from tests.bench.rivals.pull import Pull, run


async def work(client: Client, args: argparse.Namespace) -> list[asyncio.Task[None]]:
    pull, queue = Pull(client, args), asyncio.Queue[Msg]()
    office = Office(client.jetstream(), args.subject)

    async def receive(message: Msg) -> None:
        if message.reply.startswith("$JS.ACK"):
            queue.put_nowait(message)

    async def handle() -> None:
        while True:
            await office.handle(await queue.get())
            await pull.done()

    workers = [asyncio.create_task(handle()) for _ in range(args.window)]
    await pull.start(receive)
    return workers


class Office:
    """What becomes of a task: the same three messages as in Mailroom, stored one by one."""

    def __init__(self, stream: JetStreamContext, subject: str) -> None:
        self._stream, self._subject = stream, subject

    async def handle(self, message: Msg) -> None:
        task = json.loads(message.data)
        state = f"{self._subject}.state.{task['task_id']}"
        claimed = await self._store(state, {"task": task, "status": "in_progress", "attempt": 1}, "claim", 0)
        result = {"task_id": task["task_id"], "status": "completed", "output": "done"}
        await self._store(f"{self._subject}.mail", result, f"result-{task['task_id']}")
        ended = {"task": task, "status": "completed", "attempt": 1, "result": result}
        await self._store(state, ended, "end", claimed)
        await message.ack_sync()

    async def _store(self, subject: str, body: object, what: str, expect: int | None = None) -> int:
        headers = {"Nats-Msg-Id": f"{subject}-{what}"}
        if expect is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(expect)
        answer = await self._stream.publish(subject, json.dumps(body).encode(), headers=headers)
        return answer.seq


if __name__ == "__main__":
    run(work)
