"""Messages in words."""

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from services.cli.commands.tail import MessageFilter, print_message
from shared import contracts as c
from shared.bus import Stored
from shared.contracts import Envelope
from shared.queries.summaries import MAX_SUMMARY, summarize
from tests.contracts.examples import EXAMPLES

ENVELOPES = [example for example in EXAMPLES if isinstance(example, Envelope)]


@pytest.mark.parametrize("envelope", ENVELOPES, ids=lambda envelope: type(envelope).__name__)
def test_every_envelope_has_a_line(envelope: Envelope) -> None:
    said = summarize("mail.scout.nexus", envelope.to_json())
    assert (said.sender, said.recipient) == ("nexus", "scout")
    assert said.kind != "unreadable"
    assert said.id == envelope.id
    assert "\n" not in said.text
    assert len(said.text) <= MAX_SUMMARY
    # Neither of these is ever stored: they are answers, and signs of life.
    assert said.text or isinstance(envelope, c.Presence | c.MemoryWritten)


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        ("task.engineer.conductor.t1.new", "conductor → engineer"),
        ("task.engineer.conductor.t1.new_urgent", "conductor → engineer"),
        ("task.engineer.conductor.t1.cancelled", "conductor → engineer"),
        ("task.engineer.conductor.t1.claimed", "engineer → conductor"),
        ("task.engineer.conductor.t1.noted", "engineer → conductor"),
        ("task.engineer.conductor.t1.ended", "engineer → conductor"),
        ("mail.user.nexus", "nexus → user"),
        ("state.goal.g1", "conductor"),
        ("state.office", "conductor"),
        ("event.memory.graph_version", "memory"),
        ("dead.scout", "scout"),
        ("memory.write.critic", "critic → memory"),
    ],
)
def test_who_wrote_is_what_the_broker_vouches_for(subject: str, who: str) -> None:
    """The envelope may claim what it likes."""
    forged = c.Email(sender="admin", recipient="nobody", body="x")
    assert summarize(subject, forged.to_json()).parties == who


def test_an_attempt_at_a_task_is_told_with_its_number_and_its_note() -> None:
    begun = c.TaskChanged(task_id="t1", origin=7, attempt=1, worker="w")
    said = summarize("task.engineer.conductor.t1.claimed", begun.to_json())
    assert (said.kind, said.text, said.task_id, said.status) == ("state", "in_progress", "t1", "in_progress")
    noted = msgspec.structs.replace(begun, attempt=2, note="copies it")
    said = summarize("task.engineer.conductor.t1.noted", noted.to_json())
    assert said.text == "attempt 2: copies it"


def test_a_failed_result_says_why() -> None:
    result = c.TaskResult(
        task_id="t1", agent="scout", status="failed", output="", error_message="no such page"
    )  # type: ignore[arg-type]
    said = summarize("task.scout.conductor.t1.ended", result.to_json())
    assert (said.kind, said.text, said.status) == ("result", "failed: no such page", "failed")


@pytest.mark.parametrize(
    ("data", "text", "sender", "goal_id"),
    [
        (b'{"text": "do it", "goal_id": "g1", "requester": "nexus"}', "do it", "nexus", "g1"),
        (b'{"text": 5}', "5", "user", ""),
        (b"no json \xff", "no json \ufffd", "user", ""),
        (b"[1]", "[1]", "user", ""),
        (b"", "", "user", ""),
        (b'{"text": ""}', '{"text": ""}', "user", ""),
        (b'{"txt": "hi"}', '{"txt": "hi"}', "user", ""),
    ],
)
def test_submissions_are_shown_as_they_are(data: bytes, text: str, sender: str, goal_id: str) -> None:
    said = summarize("tasks.submit", data)
    assert (said.text, said.sender, said.goal_id, said.recipient) == (text, sender, goal_id, "conductor")


def test_one_of_a_kind_is_not_called_many() -> None:
    office = c.StateChanged(state=c.OfficeState.EXECUTING, active={"g1": c.OfficeState.EXECUTING})
    version = c.GraphVersion(version=7, ids=("n1",))
    assert summarize("state.office", office.to_json()).text == "EXECUTING, 1 goal open"
    assert (
        summarize("event.memory.graph_version", version.to_json()).text == "graph version 7, 1 node touched"
    )


def test_what_memory_is_asked_to_store_and_what_it_refuses() -> None:
    key = c.EdgeKey(from_id="a", to_id="b")
    write = c.MemoryWrite(nodes=(c.Node(title="The harbour"),), unlink=(key,), accessed={"a": 1, "b": 2})
    said = summarize("memory.write.memory", write.to_json()).text
    assert said == "1 node, 1 unlinked, 2 accessed: The harbour"
    rejection = c.Rejection(check="thin", reason="too little")
    refusal = c.MemoryRefused(cause="w1", error="too little", rejection=rejection)
    refused = summarize("memory.write.memory", refusal.to_json())
    assert (refused.kind, refused.text, refused.cause) == ("refused", "thin: too little", "w1")


def test_what_is_asked_of_people_and_what_they_say() -> None:
    asked = c.ApprovalRequest(
        approval_id="9f86d081884c", what="git push", expires_at="2026-01-02T14:30:22+00:00"
    )
    said = summarize("approval.engineer.asked.9f86d081884c", asked.to_json())
    assert (said.parties, said.kind, said.text) == (
        "engineer → user",
        "approval",
        "may I? git push (9f86d081)",
    )
    answer = c.ApprovalAnswer(approval_id="9f86d081884c", granted=False, note="not today")
    said = summarize("approval.engineer.answered.9f86d081884c", answer.to_json())
    assert (said.parties, said.text) == ("user → engineer", "refused 9f86d081: not today")
    judged = c.CommandJudged(
        command="rm -rf /", verdict="deny", rule="destroy.outside", why="It deletes all."
    )
    said = summarize("event.engineer.command_judged", judged.to_json())
    assert (said.parties, said.text) == ("engineer", "denied (destroy.outside): rm -rf /")


def test_what_an_agent_keeps_of_its_thinking() -> None:
    page = c.LoopCheckpoint(
        task_id="t1",
        steps=2,
        messages=({"role": "assistant", "text": "", "tool_calls": [{"name": "read_file"}]},),
    )
    said = summarize("record.engineer.thinking.x-0", page.to_json())
    assert (said.parties, said.kind, said.text) == ("engineer", "thought", "step 2: read_file")
    spent = c.DailySpending(day="2026-01-02", input_tokens=1_000, output_tokens=20, calls=1)
    said = summarize("record.engineer.spending.2026-01-02", spent.to_json())
    assert said.text == "2026-01-02: 1,020 tokens in 1 call"


def test_what_the_server_gave_up_on() -> None:
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.OFFICE.scout"
    said = summarize(subject, b'{"stream_seq": 7, "deliveries": 15}')
    assert (said.parties, said.text) == ("server → scout", "gave up on message 7 after 15 deliveries")
    assert summarize(subject, b"{}").kind == "given up"


def test_nothing_can_steer_the_terminal() -> None:
    email = c.Email(
        sender="scout", recipient="user", body="\x1b]0;title\x07\x1b[31mred\n\rover\u202ewritten\x9b1m"
    )
    said = summarize("mail.user.scout", email.to_json())
    assert said.text.isprintable()
    assert said.text == "]0;title[31mred overwritten1m"
    assert summarize("tasks.submit", b'{"text": "x", "requester": "\\u001b[2J"}').sender == "[2J"


@given(
    st.binary(max_size=200), st.sampled_from(["tasks.submit", "mail.a.b", "state.goal.g", "dead.x", "odd"])
)
def test_whatever_is_stored_has_a_line(data: bytes, subject: str) -> None:
    assert summarize(subject, data).text.replace(" ", "x").isprintable()


def test_on_a_narrow_terminal_a_text_that_does_not_fit_has_a_line_of_its_own() -> None:
    change = c.TaskChanged(
        task_id="t1", origin=1, attempt=1, worker="w", note="3,695 tests so far, 12 failed (140 s)"
    )
    stored = Stored(
        "OFFICE", "task.engineer.conductor.t1.noted", 1, change.to_json(), {}, "2026-01-02T03:04:05Z"
    )
    lines = {}
    for width in (80, 160):
        console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
        assert print_message(stored, MessageFilter(), console, as_json=False)
        assert isinstance(console.file, io.StringIO)
        lines[width] = console.file.getvalue().splitlines()
    assert [len(each) for each in lines.values()] == [2, 1]
    assert lines[80][1] == f"    {change.note}"
    assert lines[160][0].endswith(change.note)
