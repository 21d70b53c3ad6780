"""Any valid instance survives the wire; whatever else comes in raises ValueError and nothing else."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts import Envelope, decode
from tests.contracts.examples import EXAMPLES
from tests.contracts.strategies import instances, json_values

CLASSES = [type(example) for example in EXAMPLES]
GOLDEN = [example.to_dict() for example in EXAMPLES]

each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)


@each_class
@given(data=st.data())
def test_any_valid_instance_survives_the_wire(cls, data):
    instance = data.draw(instances(cls))
    wire = instance.to_json()
    assert cls.from_json(wire) == instance
    assert cls.from_json(wire).to_json() == wire
    assert cls.from_dict(instance.to_dict()) == instance
    assert json.loads(wire) == instance.to_dict()
    if issubclass(cls, Envelope):
        assert decode(wire) == instance


def refused(read, *arguments):
    """What ``read`` makes of it, or the message of the ValueError it raises."""
    try:
        return read(*arguments)
    except ValueError as error:
        assert str(error)
        return str(error)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_arbitrary_bytes_raise_value_errors_only(data):
    assert isinstance(refused(decode, data), str)
    for cls in CLASSES:
        assert isinstance(refused(cls.from_json, data), str | cls)


@given(json_values)
def test_arbitrary_json_raises_value_errors_only(value):
    data = msgspec.json.encode(value)
    assert isinstance(refused(decode, data), str)
    for cls in CLASSES:
        assert isinstance(refused(cls.from_json, data), str | cls)
        assert isinstance(refused(cls.from_dict, value), str | cls)


@each_class
@given(data=st.data())
def test_a_mutated_golden_file_is_read_or_refused_by_a_value_error(cls, data):
    wire = bytearray(EXAMPLES[CLASSES.index(cls)].to_json())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(wire) - 1))
        length = data.draw(st.integers(0, 12))
        wire[place : place + length] = data.draw(st.binary(max_size=6))
        if not wire:
            return
    assert isinstance(refused(decode, bytes(wire)), str | Envelope)
    assert isinstance(refused(cls.from_json, bytes(wire)), str | cls)


strange = (
    json_values
    | st.sampled_from(
        [float("nan"), float("inf"), 10**400, "\ud800", "x" * 200_000, b"bytes", {1: 2}, {"\ud800": 1}]
    )
    | st.builds(object)
    | st.sets(st.integers(), max_size=2)
)


@each_class
@given(data=st.data())
def test_a_strange_value_anywhere_is_read_or_refused_by_a_value_error(cls, data):
    tree = EXAMPLES[CLASSES.index(cls)].to_dict()
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = data.draw(st.sampled_from(list(keys)))
        inner = node[key]
        if not (isinstance(inner, dict | list) and inner and data.draw(st.booleans())):
            break
        node = inner
    node[key] = data.draw(strange)
    read = refused(cls.from_dict, tree)
    assert isinstance(read, str | cls)
    if not isinstance(read, str):
        refused(read.to_json)
        refused(read.to_dict)


@each_example
@given(data=st.data())
def test_what_a_constructor_takes_can_be_read_or_the_field_is_named(example, data):
    cls = type(example)
    given_ = {name: getattr(example, name) for name in cls.__struct_fields__}
    field = data.draw(st.sampled_from(msgspec.structs.fields(cls)))
    given_[field.name] = data.draw(strange)
    try:
        wire = cls(**given_).to_json()
    except ValueError as error:
        assert field.encode_name in str(error) or field.name in str(error)
    else:
        cls.from_json(wire)
