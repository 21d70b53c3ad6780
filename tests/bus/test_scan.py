"""Reading a part of a stream takes no more off the server than that part."""

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.contracts import Email
from shared.queries.records import PAGE, last_sequence, read_newest, scan
from shared.trail.archives import read_message
from tests.support.server import Server
from tests.support.waiting import eventually


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


async def is_stored(bus: Bus, seq: int) -> bool:
    return await last_sequence(bus, subjects.OFFICE) >= seq


async def test_the_newest_are_read_without_those_before_them(server: Server) -> None:
    user = await server.connect(subjects.USER)
    first = await last_sequence(user, subjects.OFFICE) + 1
    async with server.raw_client("engineer") as engineer:
        for number in range(3_000):
            agent = "critic" if number in (7, 900, 2_100) else "nexus"
            await engineer.publish(subjects.mail(agent, "engineer"), b"%d" % number)
        await engineer.flush()
    await eventually(lambda: is_stored(user, first + 2_999))
    before = user._client.stats["in_msgs"]
    for pattern, limit, expected in (
        ("mail.critic.*", 2, [900, 2_100]),
        ("mail.critic.*", 5, [7, 900, 2_100]),
        ("mail.*.engineer", 3, [2_997, 2_998, 2_999]),
        ("mail.scout.*", 3, []),
    ):
        found, number = await read_newest(user, subjects.OFFICE, pattern, limit)
        assert [int(each.data) for each in found] == expected
        assert number == {"mail.critic.*": 3, "mail.*.engineer": 3_000, "mail.scout.*": 0}[pattern]
    assert user._client.stats["in_msgs"] - before < 200
    page, number = await read_newest(user, subjects.OFFICE, "mail.nexus.*", 2)
    page, number = await read_newest(user, subjects.OFFICE, "mail.nexus.*", 2, before=page[0].seq)
    assert [int(each.data) for each in page] == [2_996, 2_997]
    assert number == 2_995


def _alone(found: list[Stored]) -> list[Stored]:
    """The messages without what the server says about its answer."""
    about = ("Nats-Num-Pending", "Nats-Last-Sequence")
    return [
        each._replace(headers={name: value for name, value in each.headers.items() if name not in about})
        for each in found
    ]


async def test_many_are_read_as_few_are(server: Server) -> None:
    """What lies behind the first page comes by another way, with the same headers and in the same order."""
    user = await server.connect(subjects.USER)
    first = await last_sequence(user, subjects.OFFICE) + 1
    number = 3 * PAGE
    async with server.raw_client("engineer") as engineer:
        for each in range(number):
            agent = "critic" if each % 3 else "nexus"
            headers = {"Nats-Msg-Id": f"m{each}", "Mailroom-Resent": str(each), "Odd": "a: b"}
            await engineer.publish(subjects.mail(agent, "engineer"), b"%d" % each, headers=headers)
        await engineer.flush()
    await eventually(lambda: is_stored(user, first + number - 1))
    for pattern, until in ((">", 0), ("mail.critic.*", 0), (">", first + 2 * PAGE)):
        few = []
        for begin in range(first, first + number, 100):  # page by page, on the connection that there is
            request = {"seq": begin, "next_by_subj": pattern, "batch": 100}
            page = [each async for each in user.read(subjects.OFFICE, request)]
            few += [each for each in page if begin <= each.seq < begin + 100]
        many = [each async for each in scan(user, subjects.OFFICE, pattern, seq=first, until=until)]
        assert _alone(many) == _alone([each for each in few if not until or each.seq <= until])
        assert len(many) > PAGE
