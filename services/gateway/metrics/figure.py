"""A figure that people look at, and its course by day."""

import msgspec


class Point(msgspec.Struct, frozen=True):
    """The value of one day; null if there is nothing to count."""

    day: str
    value: float | None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the last 30 days: ``value`` is null if there is no data, ``met`` if it has no target too.

    ``unit`` is seconds, share, count, score or dollars; ``good`` says which way is better: less, more, or
    neither.
    """

    name: str
    title: str
    value: float | None
    unit: str
    target: float | None
    target_text: str
    met: bool | None
    good: str
    detail: str
    counted: str
    trend: list[Point]
