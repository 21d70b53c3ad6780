"""Timers, and days that are counted from one named elsewhere, as times are read: "in 20 minutes"."""

from shared.language.sayings import read_sayings
from shared.language.times.spoken_times import spell_plainly
from shared.language.times.time_parser import choose

WAYS = read_sayings(__file__, "timers")


def spell_out(text: str) -> str:
    """``text`` with timers and days before others said as times are read: "in 20 minutes"."""
    text = spell_plainly(text)
    text = WAYS["timer_first"].sub(
        "remind me in ", WAYS["timer_last"].sub(r"remind me in \g<amount>", text, count=1), count=1
    )
    text = WAYS["eve"].sub(r"in the \g<part> the day before ", text, count=1)
    away = WAYS["before_it"].search(text)
    if not away or choose(text)["offset"]:
        return text
    bare = f"{text[: away.start()]}{text[away.end() :]}"
    days = [each for each in choose(bare)["day"] if not each["bound"] and not each["relative"]]
    if len(days) != 1:
        return text
    at = days[0].match.start()
    return f"{bare[:at]} {away[0].strip()} {bare[at:].strip()}"
