"""Connections that take too long to ask for anything."""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_TIMEOUT = 10.0
"""Seconds until the head of a request must be complete: uvicorn itself waits for ever."""
MAX_WAITING = 256
"""Connections that may wait for a head at the same time; of more, the oldest is closed.

So nobody uses up the process's open files by connecting and sending nothing: one who sends a request does
that at once, before 256 others have connected.
"""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection on which a request's head does not arrive in time.

    The guard, which limits how long a body may take, sees a request only when its head is complete.
    """

    _deadline: asyncio.TimerHandle | None = None
    _waiting: ClassVar[dict["PatientProtocol", None]] = {}
    """The connections that wait for a head, the oldest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first head."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Expect the rest of a head, unless a request has begun."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_head()
        else:
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._forget_deadline()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT, self._close)
            self._waiting[self] = None
            if len(self._waiting) > MAX_WAITING:
                next(iter(self._waiting))._close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._waiting.pop(self, None)

    def _close(self) -> None:
        self._forget_deadline()
        self.transport.close()
