"""Witnesses keep seals elsewhere, so that the log cannot be rewritten with other seals unnoticed."""

import asyncio
import os
import time
from pathlib import Path

import msgspec

from services.gateway.trail.sealer import Sealer
from shared import subjects
from shared.bus.elsewhere import store_elsewhere
from shared.contracts import Seal
from shared.delivery.http import request
from shared.errors import MailroomError
from shared.files import write_atomically
from shared.log import logger
from shared.queries.seals import SEALS, WITNESSED, Witnessed, name_of, read_witnessed
from shared.settings import Settings
from shared.skills.mail import read_server, submit_message, write_message
from shared.trail.seals import read_kept, without_marks

RETRY, LATEST = 10.0, 600.0
"""Seconds until a witness is tried again that took no seal: twice as many each time, at most."""
MAIL_EVERY = 3600.0
"""Seconds between two mails to a witness: one seal stands for all before it."""

OWN_SIZE, OWN_KEPT = 1024 * 1024, 500
"""The bytes from which on the gateway's own file is shortened to so many seals of each stream."""

log = logger(__name__)


class Witnesses:
    """Gives each witness of the settings the last seal of each stream, as often as there is a new one.

    The gateway's own file is one more: a server that finds a stream damaged may cut its end off.
    What a witness did not take is told by doctor and tried again; nothing waits for it.
    """

    def __init__(self, config: Settings, sealer: Sealer) -> None:
        self._config, self._sealer = config, sealer
        self._known = read_witnessed(config)

    async def run(self) -> None:
        """Serve all witnesses until cancelled."""
        own = str(self._config.gateway / SEALS)
        await asyncio.gather(*(self._serve(each) for each in (own, *self._config.audit_witness)))

    async def _serve(self, witness: str) -> None:
        pause = RETRY
        while True:
            known = self._known.setdefault(name_of(witness), Witnessed())
            new = [seal for seal in self._sealer.sealed if seal.number > known.seals.get(seal.stream, 0)]
            if not new:
                await self._sealer.wait()
                continue
            if witness.startswith("mailto:"):
                await asyncio.sleep(known.at + MAIL_EVERY - time.time())
                new = [seal for seal in self._sealer.sealed if seal.number > known.seals.get(seal.stream, 0)]
            reason = await self._give(witness, new)
            if not reason:
                seals = known.seals | {seal.stream: seal.number for seal in new}
                self._note(witness, Witnessed(seals=seals, at=time.time()))
                pause = RETRY
                continue
            log.warning("not_witnessed_yet", witness=name_of(witness), reason=reason)
            self._note(witness, msgspec.structs.replace(known, problem=reason))
            await asyncio.sleep(pause)
            pause = min(2 * pause, LATEST)

    async def _give(self, witness: str, seals: list[Seal]) -> str:
        """Why a witness did not take them; empty if it did."""
        lines = b"".join(without_marks(seal).to_json() + b"\n" for seal in seals)
        try:
            if witness.startswith("mailto:"):
                return await self._mail(witness.removeprefix("mailto:"), seals, lines)
            if witness.startswith(("http://", "https://")):
                headers = {"content-type": "application/jsonl", "user-agent": "mailroom"}
                await request("POST", witness, headers=headers, content=lines)
            elif witness.startswith(("nats://", "tls://")):
                for seal in seals:
                    await store_elsewhere(witness, without_marks(seal).to_json(), seal.id)
            else:
                await asyncio.to_thread(_append, Path(witness), lines)
                if witness == str(self._config.gateway / SEALS):
                    await asyncio.to_thread(_shorten, Path(witness))
        except (MailroomError, OSError) as error:
            return str(error)
        return ""

    async def _mail(self, address: str, seals: list[Seal], lines: bytes) -> str:
        what = ", ".join(f"{seal.stream} up to {seal.last:,}" for seal in seals)
        text = (
            "Keep this mail. With it you can prove later that nothing before was changed: put the following "
            f"lines into a file, and run: mailroom audit verify --from FILE\n\n{lines.decode()}"
        )
        mail_id = f"seal.{seals[0].chain[:32]}"
        message = write_message(self._config, address, f"Sealed: {what}", text, mail_id)
        refused = await submit_message(read_server(self._config), message, self._config.http_timeout)
        return str(refused or "")

    def _note(self, witness: str, state: Witnessed) -> None:
        self._known[name_of(witness)] = state
        try:
            write_atomically(self._config.gateway / WITNESSED, msgspec.json.encode(self._known))
        except OSError as error:  # a full disk: after a restart the witness gets the same seal again
            log.warning("not_noted", reason=str(error))


def _append(path: Path, lines: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with os.fdopen(handle, "ab") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _shorten(path: Path) -> None:
    """Keep the last seals of each stream alone: each holds for all before it, and the file is bounded."""
    if path.stat().st_size <= OWN_SIZE:
        return
    seals = read_kept(path)
    last = [[seal for seal in seals if seal.stream == stream][-OWN_KEPT:] for stream in subjects.LOG]
    write_atomically(path, b"".join(seal.to_json() + b"\n" for each in last for seal in each))
