"""A continuous pull of a durable with nothing but nats-py: what the loops that are bounds stand on."""

import argparse
import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg

HOUR = 3_600_000_000_000


class Pull:
    """Keeps ``window`` messages asked for or in hand, and gives each to ``receive``, which calls ``done``."""

    def __init__(self, client: Client, args: argparse.Namespace) -> None:
        self._client = client
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{args.stream}.{args.durable}"
        self._inbox = client.new_inbox()
        self._window = self._room = args.window

    async def start(self, receive: Callable[[Msg], Awaitable[None]]) -> None:
        await self._client.subscribe(self._inbox, cb=receive)
        await self._ask()
        await self._client.flush()

    async def done(self) -> None:
        self._room += 1
        if self._room > self._window // 2:
            await self._ask()

    async def _ask(self) -> None:
        batch, self._room = self._room, 0
        request = json.dumps({"batch": batch, "expires": HOUR}).encode()
        await self._client.publish(self._subject, request, reply=self._inbox)


def arguments() -> argparse.Namespace:
    """What the bench passes to every rival."""
    parser = argparse.ArgumentParser()
    for name in ("url", "seed", "stream", "durable", "subject"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--window", type=int, required=True)
    return parser.parse_args()


def run(work: Callable[[Client, argparse.Namespace], Awaitable[object]]) -> None:
    """Connect, start ``work``, say that it is ready, and end at SIGTERM."""
    uvloop.run(_run(work, arguments()))


async def _run(
    work: Callable[[Client, argparse.Namespace], Awaitable[object]], args: argparse.Namespace
) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    seed = Path(args.seed).read_text().strip()
    client = await nats.connect(args.url, nkeys_seed_str=seed, pending_size=32 << 20)
    kept = await work(client, args)
    print("ready", flush=True)
    await stop.wait()
    await client.close()
    del kept
