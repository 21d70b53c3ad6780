"""A local S3 server (moto's), for tests of tables in an object store; without it they are skipped."""

import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from services.cli.supervisor.programs import free_port, is_listening
from tests.support.waiting import eventually

BUCKET = "office"


class ObjectStore:
    """``moto_server`` as a process; what it holds is in its RAM, so it ends with it."""

    def __init__(self, log: Path) -> None:
        program = shutil.which(
            "moto_server", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
        )
        if program is None:
            pytest.skip("moto_server is not installed: pip install 'moto[server]'")
        self._program, self._log, self.port = program, log, free_port()
        self.process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        """What a client of it needs to know."""
        return {
            "AWS_ACCESS_KEY_ID": "office",
            "AWS_SECRET_ACCESS_KEY": "office",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
        }

    async def start(self) -> None:
        """Start it with an empty bucket."""
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: ASYNC220
                [self._program, "-H", "127.0.0.1", "-p", str(self.port)], stdout=output, stderr=output
            )
        await eventually(lambda: is_listening(self.port), 60)
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).close()  # noqa: ASYNC210

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
