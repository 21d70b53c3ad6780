"""Subjects: every name has one place, and nobody's token can be mistaken for another's."""

import fnmatch
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import subjects
from shared.contracts import NAME
from shared.errors import ConfigError
from shared.subjects import Address

names = st.from_regex(NAME, fullmatch=True).filter(lambda name: name not in subjects.RESERVED_NAMES)
tokens = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)
STEPS = (*subjects.NEW.values(), subjects.CLAIMED, subjects.NOTED, subjects.ENDED, subjects.CANCELLED)


def fits(pattern: str, subject: str) -> bool:
    """Whether a subject fits a pattern of NATS."""
    for wanted, token in itertools.zip_longest(pattern.split("."), subject.split(".")):
        if wanted == ">":
            return token is not None
        if wanted is None or token is None or not fnmatch.fnmatchcase(token, wanted):
            return False
    return True


def stored_in(subject: str) -> list[str]:
    streams = {
        subjects.OFFICE: subjects.OFFICE_SUBJECTS,
        subjects.MEMORY: subjects.MEMORY_SUBJECTS,
        **{subjects.timers_stream(agent): subjects.timer_subjects(agent) for agent in subjects.TIMED},
    }
    return [stream for stream, patterns in streams.items() if any(fits(p, subject) for p in patterns)]


@given(a=names, b=names, token=tokens)
def test_every_message_has_one_stream(a: str, b: str, token: str) -> None:
    office = [
        subjects.SUBMIT,
        subjects.submitted_by(a),
        *(subjects.task(a, b, token, step) for step in STEPS),
        subjects.mail(a, b),
        subjects.goal(token),
        subjects.OFFICE_STATE,
        subjects.event(a, "began"),
        subjects.event(a, "goal.ended"),
        subjects.dead(a),
    ]
    assert [stored_in(subject) for subject in office] == [[subjects.OFFICE]] * len(office)
    assert stored_in(subjects.memory_write(a)) == [subjects.MEMORY]
    for agent in subjects.TIMED:
        assert stored_in(subjects.timer(agent, token)) == [subjects.timers_stream(agent)]
        assert stored_in(subjects.timer_due(agent)) == [subjects.timers_stream(agent)]
    assert stored_in(subjects.AUDIT_PREFIX + subjects.task(a, b, token, subjects.CLAIMED)) == []


@given(a=names, b=names, token=tokens)
def test_the_sender_is_read_from_the_subject(a: str, b: str, token: str) -> None:
    signed = [
        *(subjects.task(a, b, token, step) for step in subjects.BY_REQUESTER),
        *(subjects.task(b, a, token, step) for step in subjects.BY_ASSIGNEE),
        subjects.mail(a, b),
        subjects.memory_write(b),
        subjects.event(b, "began"),
        subjects.event(b, "goal.ended"),
        subjects.timer(b, token),
        subjects.timer_due(b),
        subjects.dead(b),
    ]
    assert {Address.of(subject).sender for subject in signed} == {b}


@given(a=names, b=names, token=tokens)
def test_what_a_subject_says_is_what_it_was_made_of(a: str, b: str, token: str) -> None:
    for step in subjects.BY_REQUESTER:
        assert Address.of(subjects.task(a, b, token, step)) == (subjects.TASK, b, a, token, step)
    for step in subjects.BY_ASSIGNEE:
        assert Address.of(subjects.task(a, b, token, step)) == (subjects.TASK, a, b, token, step)
    assert Address.of(subjects.submitted_by(a)) == (subjects.SUBMISSION, a, subjects.CONDUCTOR, "", "")
    assert Address.of(subjects.mail(a, b)) == ("mail", b, a, "", "")
    assert Address.of(subjects.goal(token)) == ("state", subjects.CONDUCTOR, "", token, "")
    assert Address.of(subjects.record(a, "thread", token)) == ("record", a, "", token, "")
    assert Address.of(subjects.approval_asked(a, token)) == ("approval", a, subjects.USER, token, "")
    assert Address.of(subjects.approval_answered(a, token)) == ("approval", subjects.USER, a, token, "")
    assert Address.of(subjects.timer_due(a)) == ("timer", a, a, "", "")
    assert Address.of(subjects.memory_write(a)) == ("memory", a, subjects.MEMORY_DAEMON, "", "")


def test_submissions_and_advisories_have_no_sender() -> None:
    assert Address.of(subjects.SUBMIT)[:2] == (subjects.SUBMISSION, "")
    assert Address.of(subjects.max_deliveries(subjects.OFFICE, "scout"))[:2] == (subjects.ADVISORY, "")


@pytest.mark.parametrize(
    "subject", ["", "task", "task.a.b", "task.a.b.c", "mail.a.b.c", "state.c", "audit.mail.a.b", "event"]
)
def test_a_subject_that_is_none_of_the_office_says_nothing(subject: str) -> None:
    assert Address.of(subject) == ("", "", "", "", "")


@given(a=names, b=names, c=names, token=tokens)
def test_a_mailbox_holds_what_is_for_its_owner_and_nothing_else(a: str, b: str, c: str, token: str) -> None:
    mine = [
        *(subjects.task(a, b, token, step) for step in subjects.NEW.values()),
        subjects.task(c, a, token, subjects.ENDED),
        subjects.mail(a, c),
        subjects.max_deliveries(subjects.OFFICE, a),
    ]
    patterns = [pattern for filters in subjects.mailboxes(a).values() for pattern in filters]
    assert all(sum(fits(pattern, subject) for pattern in patterns) == 1 for subject in mine)
    others = [
        *(subjects.task(b, a, token, step) for step in STEPS if step != subjects.ENDED),
        *(subjects.task(a, b, token, step) for step in STEPS if step not in subjects.NEW.values()),
        subjects.mail(c, a),
        subjects.dead(a),
    ]
    if a not in (b, c):
        assert not any(fits(pattern, subject) for pattern in patterns for subject in others)


def test_only_the_conductor_gets_submissions() -> None:
    lanes = subjects.mailboxes(subjects.CONDUCTOR)
    assert {lanes[f"conductor_{each.lower()}_goals"][0]: each for each in subjects.NEW} == {
        "tasks.submit_urgent": "URGENT",
        "tasks.submit_high": "HIGH",
        "tasks.submit": "MEDIUM",
        "tasks.submit_low": "LOW",
    }
    assert [lanes[f"conductor_{name}_goals"] for name in subjects.SUBMITTING] == [
        [subjects.submitted_by(name)] for name in subjects.SUBMITTING
    ]
    assert list(lanes)[:2] == ["conductor", "conductor_urgent_goals"]
    assert list(lanes)[4:6] == ["conductor_low_goals", "conductor_urgent"]
    assert Address.of("tasks.submit_urgent") == (subjects.SUBMISSION, "", subjects.CONDUCTOR, "", "URGENT")
    assert Address.of("tasks.submit_soon") == Address()
    assert not any(subjects.SUBMIT in filters for filters in subjects.mailboxes("scout").values())


def test_mail_goes_before_tasks_and_these_by_priority() -> None:
    lanes = ("scout", "scout_urgent", "scout_high", "scout_medium", "scout_low")
    assert tuple(subjects.mailboxes("scout")) == lanes
    with pytest.raises(ConfigError, match="reserved"):
        subjects.require_agent_name("scout_low")


@given(a=names, b=names, token=tokens)
def test_every_step_has_one_writer(a: str, b: str, token: str) -> None:
    assert set(subjects.BY_REQUESTER) | set(subjects.BY_ASSIGNEE) == set(STEPS)
    assert not set(subjects.BY_REQUESTER) & set(subjects.BY_ASSIGNEE)
    if a != b:
        writers = {step: Address.of(subjects.task(a, b, token, step)).sender for step in STEPS}
        assert {step for step, writer in writers.items() if writer == a} == set(subjects.BY_ASSIGNEE)


@given(a=names, b=names, token=tokens, other=tokens)
def test_the_steps_of_a_task_are_those_of_no_other(a: str, b: str, token: str, other: str) -> None:
    steps = subjects.task(a, b, token, "*")
    assert all(fits(steps, subjects.task(a, b, token, step)) for step in STEPS)
    if token != other:
        assert not any(fits(steps, subjects.task(a, b, other, step)) for step in STEPS)
    if a != b:
        assert not any(fits(steps, subjects.task(b, a, token, step)) for step in STEPS)
    assert not fits(subjects.task("*", "*", "*", "*"), subjects.SUBMIT)


@pytest.mark.parametrize("name", sorted(subjects.RESERVED_NAMES))
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"'{name}' cannot be an agent's name: it is reserved. Choose another"
    ):
        subjects.require_agent_name(name)


@given(name=names)
def test_other_names_are_allowed(name: str) -> None:
    subjects.require_agent_name(name)


@given(a=names, instance=tokens)
def test_a_bucket_holds_its_entries(a: str, instance: str) -> None:
    for process in (instance, f"lab-{instance}"):
        assert fits(f"$KV.{subjects.AGENTS_BUCKET}.>", subjects.presence(a, process))
        assert fits(subjects.presences(a, subjects.host_of(process)), subjects.presence(a, process))
    assert fits(f"$KV.{subjects.LEASES_BUCKET}.>", subjects.lease(a))
    assert fits(f"$KV.{subjects.IDENTITIES_BUCKET}.>", subjects.identity(a))
    assert subjects.bucket_stream(subjects.AGENTS_BUCKET) == "KV_agents"


@given(a=names, b=names, token=tokens)
def test_what_is_for_an_agent_is_what_its_durables_deliver(a: str, b: str, token: str) -> None:
    every = [
        *(subjects.task(a, b, token, step) for step in STEPS),
        subjects.mail(a, b),
        *subjects.SUBMIT_AS.values(),
        *(subjects.submitted_by(name) for name in subjects.SUBMITTING),
        subjects.goal(token),
        subjects.event(a, "began"),
        subjects.dead(a),
        subjects.record(a, "thread", token),
        subjects.approval_asked(a, token),
        subjects.approval_answered(a, token),
    ]
    for agent in (a, b, subjects.CONDUCTOR):
        patterns = [pattern for filters in subjects.mailboxes(agent).values() for pattern in filters]
        if agent != subjects.GATEWAY:
            for subject in every:
                delivered = any(fits(pattern, subject) for pattern in patterns)
                assert subjects.is_for(agent, subject) == delivered, subject
    assert subjects.is_for(a, subjects.timer_due(a))
    assert not subjects.is_for(a, subjects.timer(a, token))
    assert subjects.is_for(subjects.MEMORY_DAEMON, subjects.memory_write(a))
