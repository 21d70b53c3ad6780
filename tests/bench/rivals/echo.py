"""Answers ``bench.echo`` with as many bytes as it is asked for: the least that a request can take."""

import argparse
import asyncio
import signal
from pathlib import Path

import nats
import uvloop
from nats.aio.msg import Msg


async def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("url", "seed"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await nats.connect(args.url, nkeys_seed_str=Path(args.seed).read_text().strip())

    async def answer(message: Msg) -> None:
        await message.respond(b"x" * int(message.data))

    await client.subscribe("bench.echo", cb=answer)
    await client.flush()
    print("ready", flush=True)
    await stop.wait()
    await client.close()


if __name__ == "__main__":
    uvloop.run(main())
