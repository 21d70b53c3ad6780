"""Several gateways of one office behind a proxy: who came in at one is in at all, and what happens once."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from nats.errors import TimeoutError as NatsTimeout

from shared import subjects
from shared.access.scopes import Scope, read_owner_name
from shared.bus.peers import Holder
from shared.bus.records import read_presences
from shared.contracts import DeliveryStatus, generate_id
from shared.errors import BusError
from tests.flow.test_delivery import Channels, remind
from tests.support.access import Tokens, create_link, end_sessions
from tests.support.readers import send
from tests.support.waiting import eventually

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

FIRST, SECOND = subjects.GATEWAY, f"{subjects.GATEWAY}2"


class Gateways:
    """Two gateways of an office that tells people by mail."""

    def __init__(self, folder: Path) -> None:
        self.channels = Channels(folder)
        self.running = self.channels.gateway
        self.office, self.config = self.running.office, self.running.config

    async def open(self) -> None:
        self.channels.write("mail")
        self.office.environment["MAILROOM_GATEWAY_PORT"] = "0"
        await self.running.open()
        await self.start(SECOND)

    async def start(self, which: str) -> None:
        self.office.start(FIRST, which.removeprefix(FIRST))
        await self.office.ready(FIRST, which.removeprefix(FIRST))

    def urls(self) -> list[str]:
        """The addresses of the gateways that run."""
        paths = [self.config.gateway / "listening.json", self.config.gateway / "2" / "listening.json"]
        found = [json.loads(path.read_text()) for path in paths]
        return [each["url"] for each in found if _runs(each["pid"])]

    async def holder(self) -> str:
        """Which of them tells people and seals."""

        async def find() -> str:
            async with self.office.server.connection(subjects.GATEWAY) as bus:
                stored = await bus.last(
                    subjects.bucket_stream(subjects.LEASES_BUCKET), subjects.lease(subjects.GATEWAY)
                )
            pid = Holder(**json.loads(stored.data)).pid if stored and stored.data else 0
            return next((each for each in (FIRST, SECOND) if self.office.processes[each].pid == pid), "")

        return str(await eventually(find, 30))

    async def close(self) -> None:
        await self.channels.close()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateways]:
    made = Gateways(tmp_path_factory.mktemp("gateways"))
    try:
        await made.open()
        yield made
    finally:
        await made.close()


class Proxy:
    """A reverse proxy: each connection goes to the next gateway, and to another if that is gone."""

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways
        self._turns = itertools.count()
        self.url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        urls = self._gateways.urls()
        start = next(self._turns)
        for url in (urls[(start + step) % len(urls)] for step in range(len(urls))):
            try:
                there = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            except OSError:
                continue
            await asyncio.wait(
                [
                    asyncio.create_task(self._pass(reader, there[1])),
                    asyncio.create_task(self._pass(there[0], writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
            there[1].close()
            break
        writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()


class Page:
    """A page that follows the log, at another address with each connection, as a browser does."""

    def __init__(self, token: str, last: str) -> None:
        self._token, self.last = token, last
        self.seen: list[tuple[str, int]] = []

    async def read(self, url: str, most: int = 1_000_000) -> None:
        """Read ``most`` messages, or until the connection ends."""
        headers = {"Authorization": f"Bearer {self._token}", "Last-Event-ID": self.last}
        with contextlib.suppress(httpx2.HTTPError, OSError):
            async with (
                httpx2.AsyncClient(timeout=30) as client,
                client.stream("GET", f"{url}/api/v1/events", headers=headers) as response,
            ):
                response.raise_for_status()
                position = event = ""
                async for line in response.aiter_lines():
                    name, _, value = line.partition(": ")
                    if name == "id":
                        position = value
                    elif name == "event":
                        event = value
                    elif name == "data" and event == "message":
                        row = json.loads(value)["message"]
                        self.seen.append((row["stream"], row["seq"]))
                        self.last = position
                        most -= 1
                        if most == 0:
                            return


async def write(gateways: Gateways, count: int, pause: float = 0.0) -> None:
    """Store letters and writes to memory, one after the other."""
    for number in range(count):
        await send(gateways.running, number)
        await gateways.office.user.store(
            subjects.memory_write(subjects.USER), b"{}", headers={"Nats-Msg-Id": generate_id()}
        )
        await asyncio.sleep(pause)


async def everything(gateways: Gateways, after: str) -> set[tuple[str, int]]:
    """All messages of both streams after a position."""
    found = set()
    for stream, first in zip(subjects.LOG, map(int, after.split("-")), strict=True):
        found |= {(stream, seq) for seq, _, _ in await gateways.office.stored(stream=stream) if seq > first}
    return found


async def position(gateways: Gateways) -> str:
    ends = [await gateways.office.stored_count(stream) for stream in subjects.LOG]
    return "-".join(map(str, ends))


class TestSessions:
    async def test_who_came_in_at_one_is_in_at_each_and_signs_out_of_all(self, gateways: Gateways) -> None:
        first, second = gateways.urls()
        code = create_link(gateways.config).partition("#")[2]
        async with httpx2.AsyncClient(timeout=20) as client:
            assert (await client.post(f"{first}/api/v1/session", json={"link": code})).status_code == 200
            (secret,) = client.cookies.values()
            for url in (first, second) * 3:  # the proxy leaves Host as the browser sent it
                cookie = {"Cookie": f"mailroom_session_{url.rpartition(':')[2]}={secret}"}
                answer = await client.get(f"{url}/api/v1/session", headers=cookie)
                assert answer.json()["person"] == read_owner_name()
            client.cookies.clear()
            replayed = await client.post(f"{second}/api/v1/session", json={"link": code})
            assert replayed.status_code == 401
            assert end_sessions(gateways.config) == 1
            for url in (second, first):
                cookie = {"Cookie": f"mailroom_session_{url.rpartition(':')[2]}={secret}"}
                await eventually(lambda url=url, cookie=cookie: self._is_out(url, cookie), 5)

    async def _is_out(self, url: str, cookie: dict[str, str]) -> bool:
        async with httpx2.AsyncClient() as client:
            return (await client.get(f"{url}/api/v1/session", headers=cookie)).status_code == 401

    async def test_of_two_gateways_that_are_shown_one_link_at_once_one_takes_it(
        self, gateways: Gateways
    ) -> None:
        for _ in range(2):
            code = create_link(gateways.config).partition("#")[2]
            async with httpx2.AsyncClient(timeout=20) as client:
                answers = await asyncio.gather(
                    *(client.post(f"{url}/api/v1/session", json={"link": code}) for url in gateways.urls())
                )
            assert sorted(each.status_code for each in answers) == [200, 401]
        end_sessions(gateways.config)

    async def test_a_token_counts_at_once_and_is_revoked_at_once_also_where_a_gateway_was_frozen(
        self, gateways: Gateways
    ) -> None:
        first, second = gateways.urls()
        tokens = Tokens(gateways.config)
        shown = {"Authorization": f"Bearer {tokens.add('ci', Scope.READ)}"}
        async with httpx2.AsyncClient(timeout=20) as client:
            assert (await client.get(f"{second}/api/v1/session", headers=shown)).status_code == 200
            gateways.office.signal(SECOND, signal.SIGSTOP)
            await asyncio.sleep(7)
            tokens.revoke("ci")
            asked = [
                asyncio.create_task(client.get(f"{second}/api/v1/session", headers=shown)) for _ in range(2)
            ]
            await asyncio.sleep(0.5)
            gateways.office.signal(SECOND, signal.SIGCONT)
            assert {each.status_code for each in await asyncio.gather(*asked)} == {401}
            assert (await client.get(f"{first}/api/v1/session", headers=shown)).status_code == 401

    async def test_a_submission_that_is_sent_again_to_another_gateway_is_one_goal(
        self, gateways: Gateways
    ) -> None:
        shown = {"Authorization": f"Bearer {Tokens(gateways.config).add('submitter', Scope.SUBMIT)}"}
        shown["Idempotency-Key"] = "nightly-42"
        goals = set()
        async with httpx2.AsyncClient(timeout=20) as client:

            async def is_known(url: str) -> bool:  # one of them was frozen before
                return (await client.get(f"{url}/api/v1/session", headers=shown)).status_code == 200

            for url in gateways.urls() * 2:
                await eventually(partial(is_known, url))
                answer = await client.post(f"{url}/api/v1/goals", json={"text": "Look"}, headers=shown)
                goals.add(answer.json()["goal_id"])
        assert len(goals) == 1
        assert len(await gateways.office.stored("tasks.>")) == 1

    async def test_no_agent_nor_the_key_of_people_reads_or_writes_what_gateways_share(
        self, gateways: Gateways
    ) -> None:
        stream = subjects.bucket_stream(subjects.GATEWAY_BUCKET)
        everything_there = {"seq": 1, "next_by_subj": ">", "batch": 10}

        async def attack(name: str) -> None:
            async with gateways.office.server.connection(name) as bus:
                with pytest.raises(BusError):
                    await bus.store(subjects.shared_entry("token", name), b"{}", timeout=1)
                with pytest.raises(BusError):
                    await bus.store(subjects.lease(subjects.GATEWAY), b"", timeout=1)
                with pytest.raises((BusError, NatsTimeout)):
                    assert not [each async for each in bus.read(stream, everything_there, timeout=1)]

        await asyncio.gather(*map(attack, ("engineer", subjects.NEXUS, subjects.USER)))
        assert (
            not {"engineer", subjects.NEXUS, subjects.USER} & (await gateways.running.shared("token")).keys()
        )


class TestEvents:
    async def test_a_page_that_goes_from_one_to_the_other_misses_and_repeats_nothing(
        self, gateways: Gateways
    ) -> None:
        begin = await position(gateways)
        page = Page(Tokens(gateways.config).add("page", Scope.READ), begin)
        writing = asyncio.create_task(write(gateways, 150, 0.01))
        for url in gateways.urls() * 5:
            await page.read(url, 23)
        gateways.office.signal(SECOND, signal.SIGSTOP)  # it lags, and then it is asked
        await page.read(gateways.urls()[0], 20)
        gateways.office.signal(SECOND, signal.SIGCONT)
        await writing
        for url in itertools.islice(itertools.cycle(reversed(gateways.urls())), 9):
            await page.read(url, 5)
        left = len(await everything(gateways, begin)) - len(page.seen)
        async with asyncio.timeout(30):
            await page.read(gateways.urls()[1], left)
        assert len(page.seen) == len(set(page.seen))
        assert set(page.seen) >= await everything(gateways, begin)

    async def test_a_page_behind_a_proxy_follows_though_a_gateway_is_killed(self, gateways: Gateways) -> None:
        begin = await position(gateways)
        page = Page(Tokens(gateways.config).add("follower", Scope.READ), begin)
        async with Proxy(gateways).running() as proxy:

            async def follow() -> None:
                while True:
                    await page.read(proxy.url)
                    await asyncio.sleep(0.1)

            following = asyncio.create_task(follow())
            writing = asyncio.create_task(write(gateways, 60, 0.02))
            for which in (FIRST, SECOND):
                await asyncio.sleep(0.5)
                gateways.office.kill(which)
                await asyncio.sleep(0.3)
                await gateways.start(which)
            await writing

            async def has_all() -> bool:
                return set(page.seen) >= await everything(gateways, begin)

            await eventually(has_all, 30)
            following.cancel()
        assert len(page.seen) == len(set(page.seen))


async def test_a_gateway_that_was_killed_is_not_shown_beside_the_one_that_follows(gateways: Gateways) -> None:
    gateways.office.kill(SECOND)
    await gateways.start(SECOND)
    async with gateways.office.server.connection(subjects.USER) as bus:
        here = [each.pid for each in await read_presences(bus, subjects.GATEWAY)]
    assert sorted(here) == sorted(gateways.office.processes[each].pid for each in (FIRST, SECOND))


class TestDuty:
    async def test_a_mail_is_told_once_though_the_gateway_that_sends_it_is_killed(
        self, gateways: Gateways
    ) -> None:
        mail = gateways.channels.mail
        mail.hold = 60.0
        holder = await gateways.holder()
        await remind(gateways.channels, "call the bank")
        await eventually(lambda: mail.came == 1, 30)
        mail.hold = 0.0
        gateways.office.kill(holder)
        await eventually(lambda: len(mail.mails) == 1, 20)
        assert await gateways.holder() != holder
        await gateways.start(holder)

        async def is_told() -> bool:
            told = await gateways.channels.told()
            return [each.status for each in told.values()] == [DeliveryStatus.DELIVERED]

        await eventually(is_told, 20)
        assert (mail.came, len(mail.mails)) == (2, 1)

    async def test_of_a_gateway_that_is_frozen_another_takes_over_and_it_tells_nothing_twice(
        self, gateways: Gateways
    ) -> None:
        mail = gateways.channels.mail
        before, holder = len(mail.mails), await gateways.holder()
        gateways.office.signal(holder, signal.SIGSTOP)
        await remind(gateways.channels, "water the plants", "r1111111111")
        await eventually(lambda: len(mail.mails) == before + 1, 40)
        gateways.office.signal(holder, signal.SIGCONT)
        await remind(gateways.channels, "feed the cat", "r2222222222")
        await eventually(lambda: len(mail.mails) == before + 2, 40)
        assert await gateways.holder() != holder
        await asyncio.sleep(1)
        subjects_told = [each["Subject"] for each in mail.mails]
        assert len(subjects_told) == len(set(subjects_told))
