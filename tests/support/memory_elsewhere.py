"""A process of memory that says it is on another machine: nobody looks there whether a process still runs."""

import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
socket.gethostname = lambda: "elsewhere"

from services.memory import __main__ as memory  # noqa: E402
from shared.agent.process import run  # noqa: E402

if __name__ == "__main__":
    run(memory.MemoryService, memory.__file__)
