"""Subjects: every name has one place, and nobody's token can be mistaken for another's."""

import fnmatch
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import subjects
from shared.contracts import NAME
from shared.errors import ConfigError

names = st.from_regex(NAME, fullmatch=True).filter(lambda name: name not in subjects.RESERVED_NAMES)
tokens = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)


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
        subjects.task(a, b),
        subjects.mail(a, b),
        subjects.state(a, b, token),
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
    assert stored_in(subjects.AUDIT_PREFIX + subjects.task(a, b)) == []


@given(a=names, b=names, token=tokens)
def test_the_sender_is_read_from_the_subject(a: str, b: str, token: str) -> None:
    signed = [
        subjects.task(a, b),
        subjects.mail(a, b),
        subjects.memory_write(b),
        subjects.event(b, "began"),
        subjects.event(b, "goal.ended"),
        subjects.timer(b, token),
        subjects.timer_due(b),
        subjects.dead(b),
    ]
    assert {subjects.sender_of(subject) for subject in signed} == {b}


def test_submissions_and_advisories_have_no_sender() -> None:
    assert subjects.sender_of(subjects.SUBMIT) == ""
    assert subjects.sender_of(subjects.max_deliveries(subjects.OFFICE, "scout")) == ""


@pytest.mark.parametrize(
    "subject", ["", "task", "task.a", "mail.a.b.c", "state.a.b.c", "audit.mail.a.b", "event"]
)
def test_a_subject_that_names_nobody_is_refused(subject: str) -> None:
    with pytest.raises(ConfigError, match="names no sender"):
        subjects.sender_of(subject)


@given(a=names, b=names, c=names, token=tokens)
def test_a_mailbox_holds_what_is_for_its_owner_and_nothing_else(a: str, b: str, c: str, token: str) -> None:
    mine = [subjects.task(a, b), subjects.mail(a, c), subjects.max_deliveries(subjects.OFFICE, a)]
    assert all(any(fits(pattern, subject) for pattern in subjects.mailbox(a)) for subject in mine)
    others = [subjects.task(b, a), subjects.mail(c, a), subjects.state(a, b, token), subjects.dead(a)]
    if a not in (b, c):
        assert not any(fits(pattern, subject) for pattern in subjects.mailbox(a) for subject in others)


def test_only_the_conductor_gets_submissions() -> None:
    assert subjects.SUBMIT in subjects.mailbox(subjects.CONDUCTOR)
    assert subjects.SUBMIT not in subjects.mailbox("scout")


@given(a=names, b=names, token=tokens)
def test_records_of_goals_and_of_tasks_cannot_be_mistaken(a: str, b: str, token: str) -> None:
    """Why 'goal' and 'office' are reserved: they stand where an agent's name stands."""
    assert not fits("state.*.*.*", subjects.goal(token))
    assert not fits("state.*.*.*", subjects.OFFICE_STATE)
    assert not fits("state.goal.*", subjects.state(a, b, token))
    assert not fits(subjects.task("*", "*"), subjects.SUBMIT)


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
    assert fits(f"$KV.{subjects.AGENTS_BUCKET}.>", subjects.presence(a, instance))
    assert fits(f"$KV.{subjects.LEASES_BUCKET}.>", subjects.lease(a))
    assert subjects.bucket_stream(subjects.AGENTS_BUCKET) == "KV_agents"
