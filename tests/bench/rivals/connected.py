"""The least that an agent can be: Python, uvloop and a connection. It shows that it is ready as agents do."""

import argparse
import asyncio
import os
import signal
from pathlib import Path

import nats
import uvloop


async def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("url", "seed", "run"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await nats.connect(args.url, nkeys_seed_str=Path(args.seed).read_text().strip())
    alive = Path(args.run) / f"connected-bench-{os.getpid()}.alive"
    alive.touch()
    await stop.wait()
    await client.close()
    alive.unlink()


if __name__ == "__main__":
    uvloop.run(main())
