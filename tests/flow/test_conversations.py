"""Conversations with a running nexus: follow-ups, restarts, redelivery, two at once, and other people's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import (
    Conversation,
    Email,
    Node,
    Question,
    Response,
    ResultOutcome,
    StopAnswer,
    generate_id,
)
from shared.contracts.emails import MAX_MENTIONED, MAX_TURNS
from shared.memory import Memory
from shared.queries.office import conversation_subject
from tests.support.office import Office
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
FACTS = {
    "deploys": "Deploys of the shop happen on Tuesdays at noon.",
    "deciders": "Oda Brandt decided that deploys of the shop happen on Tuesdays at noon.",
    "staging": "The staging server of the shop is called heron.",
    "production": "The production server of the shop is called osprey.",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office of nexus and memory that knows a few facts."""
    folder: Path = tmp_path_factory.mktemp("conversations")
    running = Office(folder, MAILROOM_LINKER_INTERVAL="1000000", MAILROOM_TIME_ZONE="Europe/Zurich")
    try:
        await running.open(["memory", "nexus"])
        memory = Memory(running.user)
        for name, text in FACTS.items():
            await memory.add(Node(id=name, kind="fact", title=text), insist=True)
        yield running
    finally:
        await running.close()


async def put(office: Office, text: str, session: str = "", person: str = "", name: str = "") -> Question:
    question = Question(
        id=name or generate_id(),
        sender="user",
        recipient="nexus",
        text=text,
        user_session_id=session,
        person=person,
    )
    await office.user.commit([seal(subjects.mail("nexus", "user"), question)])
    return question


async def answers_to(office: Office, question_id: str) -> list[Response]:
    stored = await office.stored(subjects.mail("user", "nexus"))
    found = [Response.from_json(data) for _, _, data in stored if question_id.encode() in data]
    return [each for each in found if each.cause == question_id]


async def say(office: Office, session: str, text: str, person: str = "") -> Response:
    question = await put(office, text, session, person)

    async def answered() -> list[Response]:
        return await answers_to(office, question.id)

    found: list[Response] = await eventually(answered, 30)
    return found[0]


async def read(office: Office, session: str) -> Conversation:
    record = await read_record(office.user, conversation_subject("user", session), Conversation)
    assert record is not None
    return record.value


TALKS = {
    "who decided it": [
        ("When do deploys of the shop happen?", "Tuesdays"),
        ("and who decided that?", "Oda Brandt"),
    ],
    "another subject": [
        ("What is the staging server of the shop called?", "heron"),
        ("and the production one?", "osprey"),
    ],
    "a time that was missing": [
        ("Remind me next Friday to call Ana", "time"),
        ("at 9:00", "at 09:00 ("),
        ("make it 10:00 instead", "10:00"),
        ("cancel that", "cancelled"),
    ],
    "the second one": [
        ("Remind me tomorrow at 9:00 to water the palms", "water the palms"),
        ("Remind me tomorrow at 11:00 to feed the carp", "feed the carp"),
        ("what are my reminders?", "feed the carp"),
        ("cancel the second one", "cancelled"),
    ],
    "what was kept": [
        ("remember that the sluice of the mill opens at noon", "I shall remember"),
        ("forget that", "Taken back: The sluice of the mill opens at noon"),
    ],
    "what was quoted": [
        ("What is the staging server of the shop called?", "heron"),
        ("forget it please", "mailroom memory forget staging"),
    ],
    "what only a pronoun names": [
        ("Who looks after the turbine?", "Memory holds nothing"),
        ("that's wrong, it's Selma now", "the turbine: it's Selma now"),
    ],
    "all of a list": [
        ("Remind me tomorrow at 9:00 to grease the crane", "grease the crane"),
        ("what are my reminders?", "grease the crane"),
        ("the first is done", "is done"),
        ("Remind me tomorrow at 9:00 to grease the winch", "grease the winch"),
        ("what are my reminders?", "grease the winch"),
        ("cancel all of them", "Shall I cancel all reminders"),
        ("yes", "cancelled"),
    ],
    "a schedule in place of another": [
        ("every night at 2 run the tests of ~/pond", "every day at 02:00"),
        ("make it 3", "every day at 03:00"),
        ("cancel that, we are done with it", "is removed"),
    ],
    "what was only told": [
        ("The spare anchor of the barge is in the boathouse", "Shall I remember it?"),
        (
            "Where is the spare anchor of the barge?",
            "in the boathouse (told here",
        ),
        ("I moved the anchor to the shed", "Shall I remember it?"),
        ("Where is the spare anchor of the barge now?", "I moved the anchor to the shed (told here"),
        ("yes", "I shall remember: I moved the anchor to the shed"),
        ("Where is the spare anchor of the barge?", "I moved the anchor to the shed (user"),
        ("We moved the anchor to the crane", "Shall I remember it?"),
        ("Where is the spare anchor of the barge?", "We moved the anchor to the crane (told here"),
        ("What did I tell you today?", "- We moved the anchor to the crane"),
    ],
    "whom one told of": [
        ("Selma Dahl is our new rigger", "Shall I remember it?"),
        ("she works on Mondays and Tuesdays", "remember that Selma Dahl: she works on Mondays and Tuesdays"),
        ("When does Selma Dahl work?", "Selma Dahl: she works on Mondays and Tuesdays (told here"),
    ],
    "what was wrong": [
        ("remember that the birthday of Ruben Falk is on 3 March", "I shall remember"),
        ("When is the birthday of Ruben Falk?", "on 3 March"),
        ("no, it's on 4 March", "Until now memory held: The birthday of Ruben Falk is on 3 March"),
        ("When is the birthday of Ruben Falk?", "The birthday of Ruben Falk is on 4 March (user"),
        ("When was the birthday of Ruben Falk before?", "The birthday of Ruben Falk is on 3 March (user"),
    ],
    "what is known": [
        ("remember that the towpath is closed in May", "I shall remember"),
        ("please remember that the towpath is closed in May", "I know that already: The towpath is closed"),
    ],
    "what may be found in a folder": [
        ("which licence does ~/src/barge have?", "Shall the office look there?"),
        ("no", "nothing is done"),
    ],
    "sums": [("what is 15% of 80?", "12"), ("and of 200?", "30")],
}


@pytest.mark.parametrize("name", TALKS)
async def test_a_follow_up_is_understood(pair: Office, name: str) -> None:
    for text, expected in TALKS[name]:
        answer = await say(pair, name.replace(" ", "-"), text)
        assert expected in answer.text, (text, answer.text, answer.understood)


async def test_it_goes_on_after_a_restart_and_in_two_sessions_at_once(pair: Office) -> None:
    await say(pair, "first", "What is the staging server of the shop called?")
    await say(pair, "second", "When do deploys of the shop happen?")
    pair.kill("nexus")
    pair.start("nexus")
    both = await asyncio.gather(
        say(pair, "first", "and the production one?"), say(pair, "second", "and who decided that?")
    )
    assert ["osprey" in both[0].text, "Oda Brandt" in both[1].text] == [True, True]
    first = await read(pair, "first")
    assert (first.title, first.questions) == ("What is the staging server of the shop called?", 2)
    turns = (await read(pair, "second")).turns
    assert [turn.state for turn in turns] == ["answered", "answered"]
    assert turns[1].meant.startswith("Who decided that")


async def test_messages_of_one_session_at_once_are_all_kept(pair: Office) -> None:
    await asyncio.gather(*(say(pair, "busy", f"what is {number} plus 1?") for number in range(4)))
    assert (await read(pair, "busy")).questions == 4


async def test_what_is_delivered_again_is_answered_once_and_changes_nothing(pair: Office) -> None:
    first = await put(pair, "what is 6 times 7?", "again")
    await eventually(lambda: answers_to(pair, first.id), 30)
    before = await pair.user.last(subjects.OFFICE, conversation_subject("user", "again"))
    # The same message as another entry of the log, as after a commit whose answer was lost.
    await pair.user.commit([seal(subjects.mail("nexus", "user"), first)._replace(id=generate_id())])
    await say(pair, "other", "what is 1 plus 1?")
    await asyncio.sleep(0.3)
    assert len(await answers_to(pair, first.id)) == 1
    after = await pair.user.last(subjects.OFFICE, conversation_subject("user", "again"))
    assert before is not None
    assert after is not None
    assert before.seq == after.seq


async def test_a_conversation_is_its_owners(pair: Office) -> None:
    await say(pair, "hers", "When do deploys of the shop happen?", person="ana")
    stranger = await say(pair, "hers", "and who decided that?", person="bob")
    assert "another person's" in stranger.text
    assert stranger.outcome is ResultOutcome.FAILED
    assert (await read(pair, "hers")).questions == 1
    order = StopAnswer(sender="user", recipient="nexus", question_id="q1", session_id="hers", person="bob")
    await pair.user.commit([seal(subjects.mail("nexus", "user"), order)])
    mine = await say(pair, "hers", "and who decided that?", person="ana")
    assert "Oda Brandt" in mine.text
    assert all(turn.id != "q1" for turn in (await read(pair, "hers")).turns)


async def test_an_agent_has_no_part_in_a_persons_conversation(pair: Office) -> None:
    await say(pair, "mine", "When do deploys of the shop happen?")
    agent = await pair.connect("scout")
    forged = Question(
        sender="scout", recipient="nexus", text="and who decided that?", user_session_id="mine", person="ana"
    )
    await agent.commit([seal(subjects.mail("nexus", "scout"), forged)])

    async def answered() -> list[bytes]:
        stored = await pair.stored(subjects.mail("scout", "nexus"))
        return [data for _, _, data in stored if forged.id.encode() in data]

    (answer,) = await eventually(answered, 30)
    assert Response.from_json(answer).understood == ""
    assert (await read(pair, "mine")).questions == 1


async def test_it_goes_on_by_mail(pair: Office) -> None:
    await say(pair, "letters", "When do deploys of the shop happen?")
    letter = Email(
        sender="user",
        recipient="nexus",
        subject="Deploys",
        body="and who decided that?",
        user_session_id="letters",
    )
    await pair.user.commit([seal(subjects.mail("nexus", "user"), letter)])

    async def answered() -> list[Email]:
        stored = await pair.stored(subjects.mail("user", "nexus"))
        return [
            Email.from_json(data) for _, _, data in stored if f'"in_reply_to":"{letter.id}"'.encode() in data
        ]

    (answer,) = await eventually(answered, 30)
    assert "Oda Brandt" in answer.body
    assert answer.user_session_id == "letters"


async def test_an_answer_that_is_stopped_before_its_question_comes_is_none(pair: Office) -> None:
    order = StopAnswer(sender="user", recipient="nexus", question_id="q-early", session_id="early")
    await pair.user.commit([seal(subjects.mail("nexus", "user"), order)])
    (stopped,) = await eventually(lambda: answers_to(pair, "q-early"), 30)
    assert stopped.text.startswith("Stopped")
    await put(pair, "Remind me tomorrow at 9:00 to fly", "early", name="q-early")
    await say(pair, "early", "what is 1 plus 1?")
    assert len(await answers_to(pair, "q-early")) == 1


async def test_a_long_conversation_keeps_its_last_turns_alone(pair: Office) -> None:
    for number in range(2 * MAX_TURNS):
        await say(pair, "long", f"what is {number} plus 1?")
    kept = await read(pair, "long")
    assert len(kept.turns) == MAX_TURNS
    assert len(kept.mentioned) <= MAX_MENTIONED
    assert kept.questions == 2 * MAX_TURNS
