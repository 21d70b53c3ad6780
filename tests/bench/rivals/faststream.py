"""FastStream's own way: a pulled JetStream subscriber that does nothing; it acknowledges and that is all."""

import asyncio
import signal
from pathlib import Path

import uvloop
from faststream.nats import JStream, NatsBroker, PullSub

from tests.bench.rivals.pull import arguments


async def main() -> None:
    args = arguments()
    broker = NatsBroker(args.url, nkeys_seed_str=Path(args.seed).read_text().strip(), logger=None)

    @broker.subscriber(
        f"{args.subject}.task",
        stream=JStream(args.stream, declare=False),
        durable=args.durable,
        pull_sub=PullSub(batch_size=args.window),
    )
    async def handle(body: bytes) -> None:
        pass

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await broker.start()
    print("ready", flush=True)
    await stop.wait()
    await broker.stop()


if __name__ == "__main__":
    uvloop.run(main())
