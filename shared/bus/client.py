"""The NATS client, with a faster parser of headers."""

from nats.aio.client import Client


class BusClient(Client):
    """nats-py's client; its own parser of headers looks at every character: a fifth of a worker's time."""

    async def answer(self, reply: str, verdict: bytes) -> None:
        """Publish an acknowledgement, without the checks of ``publish``."""
        await self._send_command(b"PUB %b  %d\r\n%b\r\n" % (reply.encode(), len(verdict), verdict))
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        lines = raw.decode("utf-8", "replace").split("\r\n")
        pairs = [line.partition(":") for line in lines]
        return {name: value.strip() for name, colon, value in pairs if colon and not _has_space(name)}


def _has_space(name: str) -> bool:
    return len(name.split(None, 1)) != 1 or name[0].isspace() or name[-1].isspace()
