"""The desk with a model, killed in the middle of a message: nothing is done twice, and nothing lost."""

import json
from pathlib import Path

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import LoopCheckpoint, Question, Response
from tests.support.office import Office
from tests.support.waiting import eventually

SCRIPT = [
    {
        "match": "The message",
        "replies": [
            {
                "calls": [
                    {"name": "work", "arguments": {"text": "run the tests of /srv/shop"}},
                    {"name": "remember", "arguments": {"texts": ["bad"]}},
                ]
            },
            {"text": "What is to be remembered?", "delay": 3},
        ],
    }
]


async def test_what_was_done_before_a_kill_is_answered_and_not_done_again(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps(SCRIPT))
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="1000000", MAILROOM_BRAIN=f"scripted:{script}")
    try:
        await office.open(["memory", "nexus"])
        question = Question(
            sender="user",
            recipient="nexus",
            text="Run the tests of /srv/shop, and remember the key",
            user_session_id="s",
        )
        await office.user.commit([seal(subjects.mail("nexus", "user"), question)])

        async def checkpointed() -> list[bytes]:
            stored = await office.stored(subjects.record("nexus", "thinking", "*"))
            return [data for _, _, data in stored if LoopCheckpoint.from_json(data).steps]

        await eventually(checkpointed, 30)
        await eventually(lambda: office.stored(subjects.SUBMISSIONS), 30)
        office.kill("nexus")
        office.start("nexus")

        async def answered() -> list[Response]:
            stored = await office.stored(subjects.mail("user", "nexus"))
            return [Response.from_json(data) for _, _, data in stored]

        (answer,) = await eventually(answered, 60)
        (submitted,) = await office.stored(subjects.SUBMISSIONS)
    finally:
        await office.close()
    assert json.loads(submitted[2])["goal_id"] == answer.goal_id
    assert answer.text.startswith(f"That is work for the office, so I started goal {answer.goal_id}")
    assert answer.text.endswith("What is to be remembered?")
