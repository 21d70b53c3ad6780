"""The limit for the size of a server's answer."""

from collections.abc import AsyncIterator

import httpx2

from shared.llm.provider_errors import MalformedResponse

LONGEST = 16 * 2**20  # Bytes of one answer, or of all pieces of a stream: a hundred times the usual length


async def bound(response: httpx2.Response) -> None:
    """Make ``response`` raise MalformedResponse after LONGEST bytes, or at once if it is compressed."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise MalformedResponse("it is compressed, which was not asked for")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > LONGEST:
                raise MalformedResponse(f"it has more than {LONGEST:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
