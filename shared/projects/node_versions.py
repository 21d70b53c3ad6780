"""Whether a version of Node fits the range in ``engines``."""

import re

Version = tuple[int, int, int]


def fits_engines(version: str, wanted: str) -> bool:
    """Whether ``version`` is in the range ``wanted``; one that is not understood allows all."""
    own = _parse(version)[0]
    return any(all(_fits(own, part) for part in _split(each)) for each in wanted.split("||"))


def _split(text: str) -> list[str]:
    text = re.sub(r"([<>=~^]+)\s+", r"\1", text.strip())
    if match := re.fullmatch(r"(\S+)\s+-\s+(\S+)", text):
        return [f">={match[1]}", f"<={match[2]}"]
    return text.split()


def _fits(own: Version, part: str) -> bool:
    match = re.fullmatch(r"([<>=~^]*)v?(\d.*)", part)
    if not match:
        return True
    sign, (low, count) = match[1], _parse(match[2])
    if sign in (">=", "<", ">"):
        high = _next(low, count)
        return {">=": own >= low, "<": own < low, ">": own >= high if count < 3 else own > low}[sign]
    if sign == "<=":
        return own < _next(low, count)
    if sign == "^":
        place = next((at for at, number in enumerate(low[:count]) if number), count - 1)
        return low <= own < _next(low, place + 1)
    return low <= own < _next(low, min(count, 2) if sign.startswith("~") else count)


def _parse(text: str) -> tuple[Version, int]:
    """The three numbers of a version, and how many of them it names."""
    numbers = [int(number) for number in re.findall(r"\d+", re.split(r"[-+xX*]", text)[0])][:3]
    padded = (*numbers, 0, 0, 0)
    return (padded[0], padded[1], padded[2]), len(numbers)


def _next(version: Version, count: int) -> Version:
    """The first version after all that begin with the first ``count`` numbers."""
    major, minor, patch = version
    return {0: (10**9, 0, 0), 1: (major + 1, 0, 0), 2: (major, minor + 1, 0)}.get(
        count, (major, minor, patch + 1)
    )
