"""The AsyncAPI document has every subject, every contract and every right, and a validator accepts it."""

import inspect
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shared import subjects
from shared.asyncapi.channels import PARAMETERS, RECORDS, channels
from shared.asyncapi.document import overlap, pattern_of
from shared.bus.identity import rights_of
from shared.contracts import ENVELOPES
from tests.contracts.examples import AGENTS, ASYNCAPI, asyncapi_digest, asyncapi_document
from tests.support.npm import require_package
from tests.support.server import mailroom_command

DOCUMENT = asyncapi_document()
PATTERNS = {channel.name: pattern_of(channel.address) for channel in channels()}
NO_SUBJECTS = {
    "timers_stream",
    "timers_durable",
    "timer_subjects",
    "bucket_stream",
    "host_of",
    "presences",
    "mailboxes",
    "is_for",
    "require_agent_name",
}
"""The functions of ``shared.subjects`` that return something else than one subject."""
VALIDATE = """
import {Parser} from '@asyncapi/parser'
import fs from 'fs'
const found = []
for (const text of JSON.parse(fs.readFileSync(0, 'utf8'))) {
  const {document, diagnostics} = await new Parser().parse(text)
  found.push({accepted: !!document, diagnostics: diagnostics.map(
    d => ({severity: d.severity, code: d.code, message: d.message, path: d.path}))})
}
console.log(JSON.stringify(found))
"""


def subject_functions() -> dict[str, Any]:
    found = inspect.getmembers(subjects, inspect.isfunction)
    return {name: function for name, function in found if function.__module__ == subjects.__name__}


def test_the_document_changes_only_on_purpose() -> None:
    """After a change that is meant ('mailroom asyncapi' shows it): python -m tests.contracts.examples."""
    assert asyncapi_digest() == ASYNCAPI.read_text()
    assert asyncapi_document() == DOCUMENT


@pytest.mark.parametrize("name", sorted(set(subject_functions()) - NO_SUBJECTS))
def test_every_function_that_makes_a_subject_has_a_channel(name: str) -> None:
    function = subject_functions()[name]
    made = pattern_of(function(**dict.fromkeys(inspect.signature(function).parameters, "{x}")))
    assert any(overlap(made, pattern) == pattern for pattern in PATTERNS.values()), made


def test_every_constant_subject_has_a_channel() -> None:
    memory = [
        subjects.memory(verb)
        for verb in (
            *subjects.MEMORY_VERBS,
            *subjects.MEMORY_SIGNED_VERBS,
            *subjects.MEMORY_PEOPLE_VERBS,
        )
    ]
    constants = [subjects.SUBMIT, subjects.OFFICE_STATE, subjects.GRAPH_VERSION, subjects.AUDIT_ALL]
    assert {*memory, *constants} <= set(PATTERNS.values())
    stored = (*subjects.OFFICE_SUBJECTS, *subjects.MEMORY_SUBJECTS)
    assert all(any(overlap(each, pattern) == pattern for pattern in PATTERNS.values()) for each in stored)


@pytest.mark.parametrize("step", [*subjects.BY_REQUESTER, *subjects.BY_ASSIGNEE])
def test_every_step_of_a_task_has_a_channel_of_its_own(step: str) -> None:
    assert PATTERNS[f"task_{step}"] == f"task.*.*.*.{step}"


def test_every_envelope_that_is_sent_is_a_message() -> None:
    read_only = {"briefing.v1", "memory_written.v1", "presence.v1", "task_changed.v1"}
    listed = {
        name
        for key, channel in DOCUMENT["channels"].items()
        if key != "audit"
        for name in channel["messages"]
    }
    assert set(ENVELOPES) - read_only <= listed
    assert read_only - {"task_changed.v1"} <= listed


def test_every_parameter_says_what_it_means() -> None:
    used = {name for channel in channels() for name in re.findall(r"{(\w+)}", channel.address)}
    assert used == set(PARAMETERS)
    assert DOCUMENT["channels"]["record"]["parameters"]["kind"]["enum"] == sorted(RECORDS)


@pytest.mark.parametrize("name", [*AGENTS, subjects.USER])
def test_the_operations_of_an_identity_are_its_rights(name: str) -> None:
    rights = rights_of(name, AGENTS)
    allowed = [*rights.publish, *rights.request, *rights.signed_request, *rights.tell]
    mine = {key: each for key, each in DOCUMENT["operations"].items() if key.startswith(f"{name}_")}
    sent = {subject for each in mine.values() if each["action"] == "send" for subject in each["x-subjects"]}
    for right in (each for each in allowed if not each.startswith("$JS.")):
        assert any(overlap(right, subject) for subject in sent), right
    own = ("peer.", "position.", "listing.")
    for subject in (each for each in sent if not each.startswith(own)):
        assert any(overlap(right, subject) == subject for right in allowed), subject


def test_no_agent_sends_what_is_anothers() -> None:
    operations = DOCUMENT["operations"]
    assert operations["engineer_send_mail"]["x-subjects"] == ["mail.*.engineer"]
    assert operations["engineer_receive_mail"]["x-subjects"] == ["mail.engineer.*"]
    assert operations["engineer_receive_mail"]["x-durables"] == ["OFFICE.engineer"]
    assert "engineer_send_submissions" not in operations
    assert "engineer_send_approval_answered" not in operations
    assert not any(key.endswith("_send_audit") for key in operations)
    assert operations["memory_receive_memory_health"]["bindings"]["nats"]["queue"] == "memory"


def test_streams_say_how_long_they_keep_messages() -> None:
    streams = DOCUMENT["x-streams"]
    assert streams["OFFICE"]["kept"] == "for ever"
    assert streams["OFFICE"]["purge_denied"]
    assert streams["MEMORY"]["republished_on"] == "audit.>"
    assert streams["TIMERS_nexus"]["max_age_seconds"] == 90 * 86_400
    assert streams["KV_agents"]["max_age_seconds"] == subjects.PRESENCE_TTL
    assert DOCUMENT["channels"]["task_ended"]["x-streams"] == ["OFFICE"]
    assert DOCUMENT["channels"]["memory_write"]["x-streams"] == ["MEMORY"]
    assert "x-streams" not in DOCUMENT["channels"]["memory_search"]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("a.*.c", "a.b.*", "a.b.c"),
        ("a.>", "a.b.c", "a.b.c"),
        ("a.*", "a.>", "a.*"),
        ("a.>", "a.>", "a.>"),
        ("a", "a.b", ""),
        ("a.b", "a.>", "a.b"),
        ("a", "a.>", ""),
        ("a.b", "a.c", ""),
    ],
)
def test_what_two_patterns_have_in_common(one: str, other: str, both: str) -> None:
    assert overlap(one, other) == both
    assert overlap(other, one) == both


def test_the_validator_accepts_it_without_a_warning() -> None:
    folder = require_package("@asyncapi/parser", "3.6.3")
    script = folder / "validate.mjs"
    script.write_text(VALIDATE)
    broken = json.loads(json.dumps(DOCUMENT))
    broken["operations"]["engineer_send_mail"]["action"] = "shout"
    both = json.dumps([json.dumps(DOCUMENT), json.dumps(broken)])
    run = subprocess.run(["node", str(script)], input=both, capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr
    assert [each["accepted"] for each in json.loads(run.stdout)] == [True, False]
    assert not json.loads(run.stdout)[0]["diagnostics"]


def test_the_command_prints_the_document_of_this_installation(tmp_path: Path) -> None:
    environment = {**os.environ, "MAILROOM_STATE_DIR": str(tmp_path)}
    run = subprocess.run(
        mailroom_command("asyncapi"), env=environment, capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")
    printed = json.loads(run.stdout)
    assert printed["channels"] == DOCUMENT["channels"]
    assert set(AGENTS) <= set(printed["x-identities"])
