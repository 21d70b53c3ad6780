"""Failures: how often each message failed in this process, and how long it waits until the next try."""

from collections import OrderedDict

from shared.errors import Retry

MAX_REMEMBERED = 1_000
"""Messages whose failures are remembered; of more, those are forgotten that failed longest ago."""
MAX_REASON = 500


class Failures:
    """The failures of messages, by their sequence.

    They are counted here, since the server counts deliveries: it also delivers again what was handed back
    because a process ended, had no free slot, or the server was restarted, which is no fault of the message.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[int, str]] = OrderedDict()

    def count(self, seq: int, reason: str = "") -> int:
        """Count one more failure of the message at ``seq``; returns how many it has.

        Without a ``reason`` the one before stays the last.
        """
        number, last = self._known.pop(seq, (0, ""))
        self._known[seq] = (number + 1, reason[:MAX_REASON] or last)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return number + 1

    def last_reason(self, seq: int) -> str:
        """Why it failed the last time; empty if it did not."""
        return self._known.get(seq, (0, ""))[1]

    def forget(self, seq: int) -> None:
        """Forget the message at ``seq``: it is done."""
        self._known.pop(seq, None)


def backoff(failures: int, retry: Retry | None = None) -> float:
    """Seconds until the next delivery: as the handler asked, else 0.25 doubling to at most 30."""
    if retry is not None and retry.delay is not None:
        return retry.delay
    return min(30.0, 0.25 * 2.0 ** min(failures - 1, 10))
