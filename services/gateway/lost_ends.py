"""Whether a stream lost its end: the server cuts off what follows a damage."""

from collections.abc import Awaitable, Callable, Sequence

from shared.bus import Stored
from shared.bus.bulk import BulkReader, Span

READ_TIMEOUT = 30.0
PAGE = 1_000


async def find_lost(
    reader: BulkReader,
    span: Span,
    known: int,
    find_others: Callable[[Sequence[Stored]], Awaitable[list[int]]],
) -> int:
    """The first message of a stream up to ``known`` that it lost; 0 if it lost none.

    ``span`` is what the stream has now. ``find_others`` says which of these messages are others than were
    known at their places. The stream is compared from its end on, back to one that is the same. A message
    that is missing between others tells nothing: it may have been erased.
    """
    end = min(span.end, known)
    lost = end + 1 if end < known else 0
    size, until = 1, end
    while until >= span.start:
        begin = max(span.start, until - size + 1)
        found: list[Stored] = []
        async for page in reader.read(span._replace(start=begin, end=until), READ_TIMEOUT):
            found += page
        others = await find_others(found)
        lost = min(others, default=lost)
        if len(others) < len(found):
            break
        size, until = min(2 * size, PAGE), begin - 1
    return lost
