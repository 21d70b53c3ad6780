"""Times as people say them, in the words that ``time_phrases`` reads: "4-ish" is "at 4 o'clock"."""

from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "spoken_times")


def spell_plainly(text: str) -> str:
    """``text`` with its spoken times as ``time_phrases`` reads them."""
    return WAYS.rewrite("spoken", text)
