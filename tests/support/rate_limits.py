"""A provider's limit of tokens in a minute, as its server keeps it: a bucket that fills bit by bit."""

import threading
import time

from tests.support.model_formats import Answer, Request

CHARACTERS_A_TOKEN = 4


class TokenBucket:
    """Answers requests of at most ``whole`` tokens at once, which come back within ``seconds``.

    ``tells``: whether answers say what is left, as OpenAI's do; otherwise a refusal alone says how long to
    wait. ``busy``: seconds that an answer takes.
    """

    def __init__(self, whole: int, seconds: float, *, tells: bool, busy: float = 0.2) -> None:
        self.whole, self.seconds, self.tells, self.busy = whole, seconds, tells, busy
        self.refused = 0
        self.answered = 0
        self.open = 0
        self.most_open = 0
        self._left = float(whole)
        self._at = time.monotonic()
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        """The answer to ``request``, or status 429."""
        tokens = sum(len(message["content"]) for message in request.body["messages"]) // CHARACTERS_A_TOKEN
        with self._lock:
            now = time.monotonic()
            self._left = min(self.whole, self._left + (now - self._at) * self.whole / self.seconds)
            self._at = now
            if self._left < tokens:
                self.refused += 1
                wait = (tokens - self._left) * self.seconds / self.whole
                return Answer(status=429, headers={**self._headers(), "retry-after": f"{wait:.1f}"})
            self._left -= tokens
            self.answered += 1
            return Answer(
                text="Yes.", headers=self._headers(), hang=self.busy, input_tokens=tokens, output_tokens=1
            )

    def _headers(self) -> dict[str, str]:
        if not self.tells:
            return {}
        return {
            "x-ratelimit-limit-tokens": str(self.whole),
            "x-ratelimit-remaining-tokens": str(int(self._left)),
            "x-ratelimit-reset-tokens": f"{(self.whole - self._left) * self.seconds / self.whole:.3f}s",
        }
