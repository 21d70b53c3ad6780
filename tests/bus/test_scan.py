"""Reading a part of a stream takes no more off the server than that part."""

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Email
from shared.queries.records import last_sequence, read_message, scan
from tests.support.server import Server


async def test_one_message_is_read_without_those_behind_it(server: Server) -> None:
    user = await server.connect(subjects.USER)
    first = await last_sequence(user, subjects.OFFICE) + 1
    for number in range(60):
        letter = Email(sender="user", recipient="critic", subject=f"Letter {number}", body="Tea?")
        entry = seal(subjects.mail("critic", "user"), letter)
        await user.store(entry.subject, entry.payload)
    before = user._client.stats["in_msgs"]
    for number in (0, 10, 59):
        stored = await read_message(user, subjects.OFFICE, first + number)
        assert stored is not None
        assert Email.from_json(stored.data).subject == f"Letter {number}"
    part = [each.seq async for each in scan(user, subjects.OFFICE, seq=first + 5, until=first + 14)]
    assert part == list(range(first + 5, first + 15))
    assert await read_message(user, subjects.OFFICE, first + 60) is None
    assert user._client.stats["in_msgs"] - before < 25
