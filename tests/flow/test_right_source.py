"""Questions of which memory has something near: answered from the right source, or declined."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.contracts import Node, Question, Response
from shared.memory import Memory
from tests.support.asking import ask_nexus
from tests.support.office import Office

NOTES = (
    "Our parcels with hardware go out by DHL, customer number 88213.",
    "Bills from couriers are filed under billing/shipping.",
    "We signed a two-year contract with Fastmail for the team's mailboxes.",
    "The API allows 600 requests per minute for each token.",
    "Uploads may have 25 MB at most.",
    "Mobile pushes are limited to three a day for each user.",
    "The lathe in hall C turns shafts of up to four metres.",
    "Sofia is the contact at Halden for everything about invoices.",
    "A paper about agents that remember was read in the journal club.",
    "The crane driver is Oskar.",
)
DECLINED = (
    "do we have a contract with FedEx?",
    "Is there an agreement with UPS?",
    "have we signed anything with Hetzner",
    "do we have a deal with GitHub?",
    "Are we a customer of Deutsche Post?",
    "got any contract with Vodafone?",
    "Who repairs the lathe?",
    "How many lathes are in hall B?",
)
TOLD = (
    ("how many requests per minute may a token make?", "600 requests"),
    ("What is the rate limit of the API?", "600 requests"),
    ("how often may a client call the API in a minute?", "600 requests"),
    ("how many requests a minute does the API allow?", "600 requests"),
    ("What may a token request per minute?", "600 requests"),
    ("how many MB may an upload have?", "25 MB"),
    ("do we have a contract with Fastmail?", "two-year"),
)
OF_THE_OFFICE = (
    "which agents are there?",
    "what agents do we have?",
    "list the agents",
    "which agents are up?",
    "how many agents are there?",
    "what agents are running?",
)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """An office of nexus and memory."""
    running = Office(tmp_path, MAILROOM_LINKER_INTERVAL="1000000")
    try:
        await running.open([subjects.MEMORY_DAEMON, subjects.NEXUS])
        yield running
    finally:
        await running.close()


async def test_what_is_near_is_no_answer_and_the_right_source_is(office: Office) -> None:
    """A contract with FedEx had two notes about billing, requests per minute what was spent."""
    await Memory(office.user).add(*(Node(title=note) for note in NOTES), insist=True)

    async def ask(text: str) -> Response:
        question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text)
        return await ask_nexus(office.user, question, 30)

    wrong = []
    for text in DECLINED:
        answer = await ask(text)
        if answer.citations or not answer.text.startswith("Memory holds nothing"):
            wrong.append((text, answer.route_used, answer.text))
    for text, told in TOLD:
        answer = await ask(text)
        if not answer.citations or told not in answer.text.splitlines()[0]:
            wrong.append((text, answer.route_used, answer.text))
    for text in OF_THE_OFFICE:
        answer = await ask(text)
        if not answer.route_used.startswith("tool:") or "agents" not in answer.text.splitlines()[0]:
            wrong.append((text, answer.route_used, answer.text))
    assert not wrong, "\n".join(f"{text} -> {route}: {answer[:90]}" for text, route, answer in wrong)
