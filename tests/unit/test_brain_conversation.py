"""Conversations are put into the order strict servers take, and refused features are written out."""

import json

from shared.llm import Message, Tool, ToolCall
from shared.llm.provider import (
    GO_ON,
    NO_RESULT,
    arrange,
    describe_tools,
    read_arguments,
    split_system,
    write_out,
)

CALL = ToolCall(id="1", name="read", arguments='{"path": "a"}')


def user(text: str) -> Message:
    return Message(role="user", text=text)


def said(text: str = "", *calls: ToolCall) -> Message:
    return Message(role="assistant", text=text, tool_calls=calls)


def result(text: str, id: str = "1") -> Message:
    return Message(role="tool", text=text, tool_call_id=id)


def roles(messages: list[Message]) -> list[str]:
    return [message.role for message in messages]


def test_system_messages_are_split_off():
    prompt, others = split_system(
        [Message(role="system", text="A"), user("x"), Message(role="system", text="B")]
    )
    assert (prompt, others) == (["A", "B"], [user("x")])


def test_neighbours_of_one_role_become_one_and_empty_ones_go():
    assert arrange([user("a"), user(" "), user("b"), said("c"), said("d"), user("e")]) == [
        user("a\n\nb"),
        said("c\n\nd"),
        user("e"),
    ]


def test_it_begins_and_ends_with_a_user():
    assert arrange([]) == [user(GO_ON)]
    assert arrange([said("a")]) == [user(GO_ON), said("a"), user(GO_ON)]


def test_each_call_is_followed_by_its_result_or_by_the_word_that_there_is_none():
    other = ToolCall(id="2", name="list", arguments="{}")
    found = arrange([user("a"), said("", CALL, other), user("wait"), result("text"), said("done"), user("b")])
    assert roles(found) == ["user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert [message.text for message in found[2:5]] == ["text", NO_RESULT, "wait"]


def test_the_same_id_may_be_used_in_every_turn():
    found = arrange([user("a"), said("", CALL), result("one"), said("", CALL), result("two")])
    assert [message.text for message in found if message.role == "tool"] == ["one", "two"]


def test_a_result_without_its_call_is_text():
    assert arrange([user("a"), said("b"), result("stray", "9")])[-1] == user("stray")


def test_arguments_that_are_no_object_are_put_into_one():
    assert read_arguments(CALL) == {"path": "a"}
    for text in ("{broken", "[1]", "[" * 100_000):
        call = ToolCall(id="1", name="read", arguments=text)
        assert read_arguments(call) == {"malformed": text}
    assert read_arguments(ToolCall(id="1", name="read", arguments="")) == {}


def test_calls_and_results_can_be_written_out_as_text():
    plain = write_out([user("a"), said("I read.", CALL), result("content")])
    assert roles(plain) == ["user", "assistant", "user"]
    assert plain[1].text == 'I read.\n\nAction: read\n{"path": "a"}'
    assert plain[2].text == "Result of read:\ncontent"
    assert json.dumps({"a": 1}) in describe_tools([Tool(name="read", description="Reads.", schema={"a": 1})])
