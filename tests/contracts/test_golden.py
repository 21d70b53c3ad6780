"""The wire format is what the golden files say."""

import json

import msgspec
import pytest

from shared import contracts
from shared.contracts import ENVELOPES, Contract, Envelope, decode
from shared.subjects import PEOPLE
from tests.contracts.examples import EXAMPLES, GOLDEN, golden_path, rendered

BY_CLASS = {type(example): example for example in EXAMPLES}
CONTRACTS = {
    value
    for name in dir(contracts)
    if isinstance(value := getattr(contracts, name), type)
    and issubclass(value, Contract)
    and value not in (Contract, Envelope)
}

NEEDED = {
    ("TaskResult", "error_message"),
    ("CancelGoal", "goal_id"),
    ("GoalDue", "goal_id"),
    ("ErasureOrder", "cause"),
    ("ErasureOrder", "nodes"),
    ("MemoryErased", "cause"),
    ("MessagesArchived", "cause"),
    ("MessagesErased", "cause"),
    ("MemoryRefused", "cause"),
    ("MemoryWrite", "nodes"),
}
"""Fields with a default that these instances are not valid with."""
FILLED_IN = {
    ("Task", "sender"): "conductor",
    ("Task", "recipient"): "engineer",
    ("Verdict", "decision"): "sent_back",
}
"""Fields that are taken from others where they are missing."""

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)


def test_every_contract_has_a_golden_file_and_every_golden_file_a_contract():
    assert set(BY_CLASS) == CONTRACTS
    assert set(ENVELOPES.values()) < CONTRACTS
    assert {golden_path(cls) for cls in CONTRACTS} == set(GOLDEN.iterdir())


@each_example
def test_golden_file_decodes_to_the_instance(example):
    data = golden_path(type(example)).read_bytes()
    assert type(example).from_json(data) == example
    assert type(example).from_json(data.decode()) == example
    assert type(example).from_dict(json.loads(data)) == example
    if isinstance(example, Envelope):
        assert decode(data) == example


@each_example
def test_instance_encodes_to_the_golden_file_byte_for_byte(example):
    data = golden_path(type(example)).read_bytes()
    assert rendered(example) == data
    assert example.to_json() == msgspec.json.format(data, indent=-1).strip()
    assert example.to_dict() == json.loads(data)


@each_example
def test_golden_file_leaves_no_field_at_its_default(example):
    fields = msgspec.structs.fields(type(example))
    left = [field.name for field in fields if getattr(example, field.name) == field.default]
    of_agent = isinstance(example, Envelope) and example.sender not in PEOPLE
    assert left == (["person", "audience"] if of_agent else [])


@each_example
def test_fields_that_a_later_version_adds_are_accepted(example):
    later = json.loads(golden_path(type(example)).read_bytes()) | {"added": {"in": ["a", "later", "version"]}}
    assert type(example).from_dict(later) == example
    assert type(example).from_json(json.dumps(later)) == example


@each_example
def test_a_defaulted_field_that_an_earlier_version_lacks_takes_its_default(example):
    whole = json.loads(golden_path(type(example)).read_bytes())
    for field in msgspec.structs.fields(type(example)):
        if field.required or (type(example).__name__, field.name) in NEEDED:
            continue
        earlier = {name: value for name, value in whole.items() if name != field.encode_name}
        read = type(example).from_json(json.dumps(earlier)).to_dict()
        omitted = "" if isinstance(example, Envelope) and field.name in ("person", "audience") else None
        taken = read.pop(field.encode_name, omitted)
        assert {"type": whole.get("type"), **read} == {"type": whole.get("type"), **earlier}
        if field.default is not msgspec.NODEFAULT:
            expected = FILLED_IN.get((type(example).__name__, field.name), field.default)
            assert taken == msgspec.json.decode(msgspec.json.encode(expected))


@each_example
def test_a_missing_required_field_is_named(example):
    whole = json.loads(golden_path(type(example)).read_bytes())
    for field in msgspec.structs.fields(type(example)):
        if field.required:
            rest = {name: value for name, value in whole.items() if name != field.encode_name}
            with pytest.raises(
                msgspec.ValidationError, match=f"missing required field `{field.encode_name}`"
            ):
                type(example).from_dict(rest)


def test_decode_tells_apart_all_types():
    assert {tag: type(decode(golden_path(cls).read_bytes())) for tag, cls in ENVELOPES.items()} == ENVELOPES
