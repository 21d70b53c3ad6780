"""Claims of a model that can only write, and what a composed answer keeps."""

import time

import pytest

from services.nexus.answers.model_answer import (
    ModelAnswer,
    checked_response,
)
from services.nexus.answers.unsupported_claims import remove_unsupported
from shared.contracts import ContextItem, ContextPacket, Due, DueKind

FALSE = """
    I have set a reminder for tomorrow.
    I've just created a task for this.
    I set the reminder.
    I'll remind you on Friday.
    I will notify the team.
    We are going to schedule a meeting.
    I have already asked cortex.
    I am looking into it now.
    Your reminder for tomorrow is set.
    A goal has been submitted.
    The e-mail was sent.
    Reminder set.
    All set!
    Done, the task is running.
    There are two reminders for tomorrow.
    You have no reminders.
    Follow it as goal_20260101_abcdef.
    It is reminder r0123456789.
    You will get a reminder at 9.
    I'll ping you at 9.
    The next reminder goes off at 9.
    **Reminder:** call Ana tomorrow at 9
    No worries, it has been scheduled.
    It's been added to your list.
    I cannot send mail, but I've set a reminder.
    The engineer is working on it.
    The scout has been asked to look into it.
    There are two tasks waiting for cortex.
    Nexus will remind you at 9.
    Your reminder is set for 9 [m1].
"""
TRUE = """
    The key hangs beside the door.
    The team set the limit to 200 in May.
    I have not set a reminder.
    I cannot create tasks.
    I can't remind you of that.
    We don't have anything on that.
    The release was delayed [m1].
    The goal was submitted on Monday [m1].
    Memory says nothing about the price.
    Set the variable before you start the server.
    As goal_known123 says, two tests fail.
    You can set a reminder with 'remind me to call Ana tomorrow at 9'.
    To set a reminder, say what and when.
    The engineer was asked about the outage [m1].
    The reminder service was rewritten in May [m1].
"""


def lines(block: str) -> list[str]:
    return [line.strip() for line in block.strip().splitlines()]


@pytest.mark.parametrize("sentence", lines(FALSE))
def test_what_did_not_happen_is_struck(sentence: str) -> None:
    text, struck, _ = remove_unsupported(f"Tea is at four. {sentence}", "goal_known123", {"m1"})
    assert text == "Tea is at four."
    assert " ".join(struck) == sentence


@pytest.mark.parametrize("sentence", lines(TRUE))
def test_what_may_be_so_stands(sentence: str) -> None:
    assert remove_unsupported(sentence, "goal_known123", {"m1"}) == (sentence, (), False)


def test_the_rest_of_the_text_keeps_its_lines() -> None:
    text, struck, reminders = remove_unsupported(
        "One.\n\n- Two. I set a reminder. Three.\n- Four.", "", set()
    )
    assert text == "One.\n\n- Two. Three.\n- Four."
    assert struck == ("I set a reminder.",)
    assert reminders


PACKET = ContextPacket(
    query="Where is the key?",
    bullets=(ContextItem(text="The key hangs\nbeside the door", evidence_id="node1", score=0.8),),
    unknowns=("wifi",),
    assumptions=("'The key' still holds",),
)


def test_an_answer_that_cites_nothing_is_worth_little() -> None:
    assert checked_response(ModelAnswer(text="By the door."), PACKET, ()).confidence == 0.2
    assert checked_response(ModelAnswer(text="By the door [node1]."), PACKET, ()).confidence == 0.8
    named = checked_response(ModelAnswer(text="By the door.", citations=("node1",)), PACKET, ())
    assert named.citations == ("node1",)


def test_brackets_that_are_no_ids_stand() -> None:
    response = checked_response(ModelAnswer(text="By the [sic] door [1] [node1] [fake_id_7]."), PACKET, ())
    assert response.text.startswith("By the [sic] door [1] [node1].")


def test_where_nothing_true_is_left_it_says_so_and_what_there_is() -> None:
    reminder = Due(
        due_id="r1", what=DueKind.MAIL, text="tea", requester="user", at="2027-01-01T00:00:00+00:00"
    )
    response = checked_response(ModelAnswer(text="I set your reminder."), PACKET, (reminder,))
    assert response.text.startswith("Memory holds nothing that answers this.")
    assert "There is one open reminder: see 'mailroom reminders list'." in response.text
    assert response.citations == ()


def test_what_a_tool_told_may_be_said_and_nothing_that_was_done() -> None:
    told = "r0123456789: call Ana: goes off on Monday 30 November 2026 at 09:00"
    known = "You have a reminder to call Ana on Monday 30 November at 09:00 [r0123456789]."
    assert checked_response(ModelAnswer(text=known), PACKET, (), told).text == known
    other = "You have a reminder to call Ben on Tuesday 1 December at 10:00."
    assert "call Ben" not in checked_response(ModelAnswer(text=other), PACKET, (), told).text
    claim = "I have set a reminder to call Ana on Monday 30 November at 09:00."
    assert "I have set" not in checked_response(ModelAnswer(text=claim), PACKET, (), told).text


@pytest.mark.parametrize(
    "word", ["there is ", "I have ", "your ", "reminder is ", "[node1] ", "goal_abcdefg "]
)
def test_long_answers_are_checked_quickly(word: str) -> None:
    begun = time.perf_counter()
    checked_response(ModelAnswer(text=word * 10_000), PACKET, ())
    assert time.perf_counter() - begun < 3
