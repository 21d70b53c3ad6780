"""Bad input is refused with the field's name, by the decoder and by the constructor alike."""

import datetime
import json
import re

import msgspec
import pytest

from shared import contracts as c
from tests.contracts.examples import EDGE, EXAMPLES, GOAL, NODE, TASK, TASK_RESULT, golden_path

EMAIL = EXAMPLES[0]
PLAN = next(example for example in EXAMPLES if isinstance(example, c.TaskPlan))
RESPONSE = next(example for example in EXAMPLES if isinstance(example, c.Response))
REQUEST = next(example for example in EXAMPLES if isinstance(example, c.TaskRequest))
QUERY = next(example for example in EXAMPLES if isinstance(example, c.MemoryQuery))
CONTEXT = next(example for example in EXAMPLES if isinstance(example, c.CognitiveContext))
VERDICT = next(example for example in EXAMPLES if isinstance(example, c.Verdict))
WRITE = next(example for example in EXAMPLES if isinstance(example, c.MemoryWrite))
REFUSED = next(example for example in EXAMPLES if isinstance(example, c.MemoryRefused))
TRAVERSE = next(example for example in EXAMPLES if isinstance(example, c.TraverseQuery))
PATHS = next(example for example in EXAMPLES if isinstance(example, c.PathsQuery))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_a_value_of_a_wrong_type_is_refused_with_the_name_of_the_field(example):
    for field in msgspec.structs.fields(type(example)):
        with pytest.raises(ValueError, match=rf"\b{field.encode_name}\b"):
            msgspec.structs.replace(example, **{field.name: object()})
        wire = example.to_dict() | {field.encode_name: [[5]]}
        with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field.encode_name}\b"):
            type(example).from_dict(wire)
        with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field.encode_name}\b"):
            type(example).from_json(json.dumps(wire))


WRONG = [
    (TASK, {"task_id": ""}, "task_id must be a non-empty string"),
    (TASK, {"task_id": None}, "task_id must be a non-empty string"),
    (TASK, {"task_id": "a.b"}, "task_id must be 1 to 128 letters, digits, '_' or '-', not 'a.b'"),
    (TASK, {"task_id": "a\n"}, "task_id must be 1 to 128 letters"),
    (TASK, {"text": " \n\t"}, "text must be a non-empty string"),
    (TASK, {"text": "x" * 100_001}, "text has 100,001 characters; the limit is 100,000"),
    (TASK, {"assignee": "two words"}, "assignee must be a name of 1 to 64 lower-case letters"),
    (TASK, {"requester": None}, "requester must be a non-empty string"),
    (TASK, {"deadline": "tomorrow"}, "deadline must be an ISO 8601 timestamp, not 'tomorrow'"),
    (TASK, {"depends_on": ["a b"]}, "depends_on must be 1 to 128 letters"),
    (TASK, {"priority": "whenever"}, "priority: Invalid enum value 'whenever'"),
    (TASK, {"context": {1: 2}}, "context: Expected `str`"),
    (TASK, {"evidence_refs": "README.md"}, "evidence_refs: Expected `array`, got `str`"),
    (TASK, {"evidence_refs": (1,)}, "evidence_refs: Expected `str`, got `int`"),
    (TASK, {"created_at": ""}, "created_at must be a non-empty string"),
    (TASK, {"id": "x" * 129}, "id must be 1 to 128 letters"),
    (REQUEST, {"task_description": ""}, "task_description must be a non-empty string"),
    (REQUEST, {"requester": " "}, "requester must be a non-empty string"),
    (TASK_RESULT, {"error_message": " "}, "error_message must be a non-empty string when status is failed"),
    (TASK_RESULT, {"status": "done"}, "status: Invalid enum value 'done'"),
    (TASK_RESULT, {"completed_at": "soon"}, "completed_at must be an ISO 8601 timestamp"),
    (PLAN, {"steps": ()}, "steps must have at least one step"),
    (PLAN, {"overall_complexity": "huge"}, "overall_complexity must be low, medium or high"),
    (PLAN, {"steps": [{"step_number": 1, "action": "a"}] * 2}, "steps must not share a step_number"),
    (PLAN, {"steps": [{"step_number": 0, "action": "a"}]}, "steps: step_number must be at least 1, not 0"),
    (
        PLAN,
        {"steps": [{"step_number": 1, "action": "a", "dependencies": [7]}]},
        "steps: step 1 depends on 7, which is not in the plan",
    ),
    (
        PLAN,
        {"steps": [{"step_number": n, "action": "a", "dependencies": [3 - n]} for n in (1, 2)]},
        "steps must not wait for each other in a circle",
    ),
    (PLAN.steps[0], {"dependencies": (1,)}, "dependencies of step 1 must not name the step itself"),
    (EMAIL, {"sender": ""}, "sender must be a non-empty string"),
    (EMAIL, {"subject": "x" * 501}, "subject has 501 characters; the limit is 500"),
    (EMAIL, {"body": "x" * 100_001}, "body has 100,001 characters"),
    (RESPONSE, {"confidence": 1.5}, "confidence must be between 0 and 1, not 1.5"),
    (RESPONSE, {"confidence": float("nan")}, "confidence must hold finite numbers"),
    (RESPONSE, {"confidence": True}, "confidence: Expected `float`, got `bool`"),
    (GOAL, {"submitted_at": "now"}, "submitted_at must be an ISO 8601 timestamp"),
    (NODE, {"title": "x" * 257}, "title has 257 characters; the limit is 256"),
    (NODE, {"tags": ["x"] * 33}, "tags has 33 entries; the limit is 32"),
    (NODE, {"importance": -0.1}, "importance must be between 0 and 1"),
    (NODE, {"kind": "Fact"}, "kind must be a name"),
    (NODE, {"embedding": [float("inf"), -float("inf")]}, "embedding must hold finite numbers"),
    (NODE, {"valid_to": datetime.datetime.now(datetime.UTC)}, "valid_to must be a string"),
    (EDGE, {"to_id": EDGE.from_id}, "to must be another node than from"),
    (EDGE, {"from_id": ""}, "from must be a non-empty string"),
    (EDGE, {"weight": 1.01}, "weight must be between 0 and 1"),
    (EDGE, {"relation": "likes"}, "relation: Invalid enum value 'likes'"),
    (EDGE, {"touched_at": "now"}, "touched_at must be an ISO 8601 timestamp"),
    (EDGE, {"version": -1}, "version must be at least 0, not -1"),
    (NODE, {"access_count": -1}, "access_count must be at least 0, not -1"),
    (
        WRITE,
        {"nodes": (), "edges": (), "retire": (), "forget": (), "unlink": (), "accessed": {}},
        "nodes, edges, retire, forget, unlink or accessed must have at least one entry",
    ),
    (WRITE, {"retire": ("a b",)}, "retire must be 1 to 128 letters"),
    (WRITE, {"accessed": {"a b": 1}}, "accessed must be 1 to 128 letters"),
    (WRITE, {"accessed": {"a": -1}}, "accessed must be at least 0, not -1"),
    (
        WRITE,
        {"vectors": b"12345"},
        "vectors has 5 bytes, which are no whole numbers of 4 bytes for each of 1",
    ),
    (WRITE, {"nodes": ()}, "vectors has 8 bytes, which are no whole numbers of 4 bytes for each of 0 nodes"),
    (WRITE, {"unlink": [{"from": "a", "to": ""}]}, "unlink: to must be a non-empty string"),
    (REFUSED, {"cause": ""}, "cause must be a non-empty string"),
    (REFUSED.rejection, {"reason": ""}, "reason must be a non-empty string"),
    (TRAVERSE, {"depth": 10_000}, "depth must be between 0 and 20, not 10000"),
    (TRAVERSE, {"start": ()}, "start must name 1 to 1,000 nodes, not 0"),
    (TRAVERSE, {"min_weight": float("nan")}, "min_weight must hold finite numbers"),
    (TRAVERSE, {"strategy": "random"}, "strategy: Invalid enum value 'random'"),
    (PATHS, {"k": 0}, "k must be between 1 and 20, not 0"),
    (QUERY, {"at": -1}, "at must be a graph version, at least 0, not -1"),
    (QUERY, {"anchors": ("a.b",)}, "anchors must be 1 to 128 letters"),
    (QUERY, {"vector": (float("nan"),)}, "vector must hold finite numbers"),
    (QUERY, {"limit": 101}, "limit must be between 1 and 100, not 101"),
    (QUERY, {"limit": True}, "limit: Expected `int`, got `bool`"),
    (CONTEXT, {"iteration_count": -1}, "iteration_count must be at least 0"),
    (VERDICT, {"decision": "maybe"}, "decision: Invalid enum value 'maybe'"),
]


@pytest.mark.parametrize(
    ("example", "change", "message"), WRONG, ids=[message[:50] for _, _, message in WRONG]
)
def test_a_wrong_value_is_refused_in_words(example, change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        msgspec.structs.replace(example, **change)
    with pytest.raises(ValueError, match=re.escape(message)):
        type(example)(**{name: getattr(example, name) for name in example.__struct_fields__} | change)


BROKEN = [
    (b"", "the message is empty"),
    (b"{", "not valid JSON: Input data was truncated"),
    (b'{"type":"task.v1"} x', "not valid JSON: JSON is malformed: trailing characters"),
    (b"[1]", "it must be a JSON object with a 'type'"),
    (b"5", "it must be a JSON object with a 'type'"),
    (b'{"text":"hello"}', "the field 'type' is missing"),
    (b'{"type":5}', "it must be a JSON object with a 'type'"),
    (b'{"type":"fax.v9"}', "unknown envelope type 'fax.v9'"),
    (b'{"type":"email.v9"}', "unknown envelope type 'email.v9': this version reads email.v1"),
    (b'{"type":"task.v1"}', "task.v1: Object missing required field `task_id`"),
    (b'{"type":"email.v1","sender":"a","recipient":"b","body":"\xff"}', "not valid UTF-8"),
    (b'{"type":"email.v1","sender":"a","recipient":"b","body":"\\ud800"}', "not valid JSON"),
    (
        b'{"type":"task.v1","context":' + b'{"a":' * 100_000,
        "not valid JSON: maximum recursion depth exceeded",
    ),
    (b'{"type":"task.v1","context":{"n":' + b"1" * 5_000 + b"}}", "Integer value out of range"),
    (b'{"type":"task.v1","context":{"n":1e999}}', "Number out of range"),
    ('{"type":"task.v1"}'.encode("utf-16"), "not valid JSON"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN, ids=[message[:50] for _, message in BROKEN])
def test_what_is_no_envelope_is_refused_in_words(data, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        c.decode(data)
    assert "\n" not in str(caught.value)


def test_a_reason_does_not_repeat_a_long_message():
    task = TASK.to_dict() | {"priority": "x" * 50_000}
    with pytest.raises(ValueError, match=r"\$\.priority") as caught:
        c.decode(json.dumps(task).encode())
    assert len(str(caught.value)) < 1_000


def test_another_type_is_not_read_as_this_one():
    with pytest.raises(msgspec.ValidationError, match=r"\$\.type"):
        c.Task.from_json(golden_path(c.Email).read_bytes())


NOT_JSON = {
    "object": object(),
    "set": {1, object()},
    "text": "\ud800",
    "key": {"deep": {(1, 2): 3}},
    "number": 10**5_000,
}


@pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_has_no_json_form_is_refused_with_the_name_of_the_field(value):
    task = msgspec.structs.replace(TASK, context={"value": value})
    for write in (task.to_json, task.to_dict):
        with pytest.raises(ValueError, match="context has no JSON form"):
            write()


def test_too_deep_nesting_is_refused():
    deep: dict = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="context has no JSON form: maximum recursion depth exceeded"):
        msgspec.structs.replace(TASK, context=deep).to_json()


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(ValueError, match="text has no JSON form"):
        msgspec.structs.replace(TASK, text="a\ud800").to_json()
    with pytest.raises(ValueError, match="Email is not valid JSON"):
        c.Email.from_json('{"body":"\ud800"}')
    with pytest.raises(ValueError, match="TaskResult holds text that is not Unicode"):
        c.TaskResult.from_dict(TASK_RESULT.to_dict() | {"status": "\ud800"})
