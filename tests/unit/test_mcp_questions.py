"""Questions of MCP servers: what a person is told, and what becomes of the answer."""

from typing import Any

import pytest

from shared.mcp.questions import describe, fill, read_answer

FORM: dict[str, Any] = {
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "default": 30},
        "fast": {"type": "boolean", "default": True},
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"], "default": "m"},
        "tone": {"type": "string", "oneOf": [{"const": "c1", "title": "Dark blue"}, {"const": "c2"}]},
        "days": {"type": "array", "items": {"anyOf": [{"const": 1, "title": "Monday"}, {"const": 2}]}},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ("name: Ada", {"name": "Ada"}),
        ("Hello!\nname: Ada\nage: 3\nfast: No\n-- \nAda", {"name": "Ada", "age": 3, "fast": False}),
        ("name: x: y\nsize: small\ntone: dark blue", {"name": "x: y", "size": "s", "tone": "c1"}),
        ("name: a\ntone: c2\nsize: S", {"name": "a", "tone": "c2", "size": "s"}),
        ("name: a\ndays: Monday, 2\ntags: b", {"name": "a", "days": [1, 2], "tags": ["b"]}),
    ],
)
def test_fields_are_read_line_by_line(answer: str, values: dict[str, Any]) -> None:
    assert read_answer(answer, FORM) == ("accept", values)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "none of the fields"),
        ("what is this?", "none of the fields"),
        ("yes", "name is missing"),
        ("age: 3", "name is missing"),
        ("name: a\nage: three", "age has to be a number"),
        ("name: a\nsize: large", "size cannot be 'large'"),
        ("name: a\nfast: maybe", "fast cannot be 'maybe'"),
        ("name: a\ndays: Sunday", "days cannot be 'Sunday'"),
    ],
)
def test_what_is_no_answer_is_told(answer: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_answer(answer, FORM)


@pytest.mark.parametrize("field", [{"type": "string"}, {"type": "integer"}, {"enum": ["yes", "maybe"]}])
def test_one_word_declines_or_cancels(field: dict[str, Any]) -> None:
    form = {"properties": {"it": field}, "required": ["it"]}
    for form_asked in (form, FORM):
        assert read_answer("No.", form_asked) == ("decline", {})
        assert read_answer("cancel", form_asked) == ("cancel", {})


def test_the_only_field_needs_no_name() -> None:
    assert read_answer("green", {"properties": {"colour": {"type": "string"}}}) == (
        "accept",
        {"colour": "green"},
    )
    assert read_answer("No", {"properties": {"sure": {"type": "boolean"}}}) == ("accept", {"sure": False})
    assert read_answer("yes", {"properties": {"it": {"enum": ["yes", "no"]}}}) == ("accept", {"it": "yes"})
    proposed = {"properties": {"it": {"type": "string", "default": "x"}}, "required": ["it"]}
    assert read_answer("yes", proposed) == ("accept", {})
    assert fill(proposed, {}) == {"it": "x"}


def test_what_is_left_out_is_as_proposed() -> None:
    assert fill(FORM, {"name": "Ada", "age": 3}) == {"name": "Ada", "age": 3, "fast": True, "size": "m"}
    assert fill({"properties": {"a": "no field"}}, {}) == {}


def test_a_person_is_told_what_each_may_be() -> None:
    told = describe(FORM)
    assert "name: Your name - (string)" in told
    assert "age: (integer; may be left out; otherwise 30)" in told
    assert "size: (one of s (Small), m (Medium); may be left out; otherwise m)" in told
    assert "days: (some of 1 (Monday), 2; may be left out)" in told
