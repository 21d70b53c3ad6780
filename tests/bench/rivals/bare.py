"""The bare loop: every message is acknowledged, and that is all."""

import argparse

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.bench.rivals.pull import Pull, run


async def work(client: Client, args: argparse.Namespace) -> None:
    pull = Pull(client, args)

    async def acknowledge(message: Msg) -> None:
        if message.reply.startswith("$JS.ACK"):
            await message.ack()
            await pull.done()

    await pull.start(acknowledge)


if __name__ == "__main__":
    run(work)
