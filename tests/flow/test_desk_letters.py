"""Letters of the office, found by what is in them: by agents for a person, by command, and at the desk."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import submission_entry
from shared.contracts import Email, SentEmail, Task, TaskStatus
from shared.text.display import shorten_id
from tests.support.office import Office
from tests.support.server import run_mailroom

WRITTEN = (
    (
        "scout",
        "Prices of the soil sensors",
        "The cheapest of the three is Farmsense at 38 euros a piece. Terravolt costs 52.",
    ),
    ("critic", "Review of the ledger importer", "I sent the patch back twice because it swallowed dates."),
    ("engineer", "Which branch for the kiln fix?", "Shall I use main or release-2?"),
)
ASKED = (
    ("what did they say the cheapest sensor costs", "scout"),
    ("how expensive is the Farmsense one, it was in a letter", "scout"),
    ("which price did scout name for Terravolt", "scout"),
    ("letters about the importer", "critic"),
    ("the newest letter of the engineer", "engineer"),
    ("which letter is unanswered", "engineer"),
)


@pytest.fixture
async def letters(tmp_path: Path) -> AsyncIterator[tuple[Office, dict[str, str]]]:
    """An office to whose person three agents wrote, and the ids of the letters by their writers."""
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="1000000")
    try:
        await office.open(["memory", "nexus", "gateway"])
        ids = {}
        for sender, subject, body in WRITTEN:
            email = Email(sender=sender, recipient=subjects.USER, subject=subject, body=body)
            bus = await office.connect(sender)
            note = SentEmail(sender=sender, email=email, awaited=body.endswith("?"))
            await bus.commit(
                [
                    seal(subjects.mail(subjects.USER, sender), email),
                    seal(subjects.record(sender, "letter", email.id), note),
                ]
            )
            ids[sender] = email.id
        yield office, ids
    finally:
        await office.close()


async def run(office: Office, *arguments: str) -> str:
    done = await asyncio.to_thread(run_mailroom, office.environment, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_letters_are_found_for_agents_by_command_and_at_the_desk(
    letters: tuple[Office, dict[str, str]],
) -> None:
    office, ids = letters
    conductor, engineer = await office.connect("conductor"), await office.connect("engineer")
    for number, (wanted, sender) in enumerate(ASKED):
        # at the desk, through the gateway
        told = json.loads(await run(office, "ask", wanted, "--json"))
        assert ids[sender] in told["citations"], (wanted, told["text"])
        # an agent that works for a person
        task = Task(
            task_id=f"find-{number}",
            text=wanted,
            assignee="nexus",
            requester="conductor",
            asker=subjects.USER,
            context={"action": "find_letters", "params": {"wanted": wanted}},
        )
        await conductor.commit([submission_entry(task)])
        found = await office.result("nexus", task.task_id, "conductor")
        assert (found.status, ids[sender] in found.evidence_refs) == (TaskStatus.COMPLETED, True), found
    # by command, by the beginning of an id as it is told, and by a word that is in it
    assert "Farmsense at 38" in await run(office, "mail", "show", shorten_id(ids["scout"]))
    assert "Prices of the soil sensors" in await run(office, "mail", "list", "--contains", "Farmsense")
    # an agent on its own account gets none
    own = Task(
        task_id="own",
        text="letters",
        assignee="nexus",
        requester="engineer",
        asker=subjects.USER,
        context={"action": "find_letters", "params": {"wanted": "letters about the importer"}},
    )
    await engineer.commit([submission_entry(own)])
    refused = await office.result("nexus", "own", "engineer")
    assert refused.status is TaskStatus.FAILED
    assert "for people alone" in refused.error_message
