"""What two texts mean together: whether the later one changes what the earlier one says.

The cross-encoder of deep search reads both at once; from its layer STATES on the classifier ``meaning`` reads
on, which was fitted to written changes, and to pairs that look like changes and are none.
"""

from collections.abc import Sequence
from functools import lru_cache

from services.memory.classifier import open_classifier
from services.memory.retrieval.deep_search import Reranker
from shared.errors import StartError
from shared.log import logger

log = logger(__name__)

KEPT = 4_096  # Pairs whose log-odds are kept: a node is held against the same ones again


class PairReader:
    """Reads pairs of texts with the model of ``reranker``."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._score = lru_cache(KEPT)(self._score_pair)
        self._failed = False

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The log-odds of each pair (older, newer) that the newer text changes what the older one says.

        Takes some 20 ms a pair that was not read lately. Empty if the model cannot be read.
        """
        try:
            return [self._score(*pair) for pair in pairs]
        except StartError as error:
            if not self._failed:
                log.warning("pairs_not_read_for_meaning", reason=str(error))
            self._failed = True
            return []

    def _score_pair(self, older: str, newer: str) -> float:
        states = self._reranker.states(older, newer)
        return float(open_classifier("meaning").score(states=states[None])[0, 0])
