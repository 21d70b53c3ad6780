"""Brains against servers that keep to the wire formats in their own way, or mean harm."""

import json
from typing import Any

import msgspec
import pytest

from shared.errors import ModelError, ModelUnavailable
from shared.llm import Message, Thought, ToolCall, ask_for
from tests.flow.test_brain_servers import KEY, READ, TALK, brain_at, collect
from tests.support.model_formats import Answer
from tests.support.model_server import serve_model

COMPLETION = {"id": "1", "object": "chat.completion", "created": 1, "model": "small"}
COUNTED = {"prompt_tokens": 11, "completion_tokens": 7, "input_tokens": 11, "output_tokens": 7}


class Word(msgspec.Struct):
    word: str


@pytest.fixture(params=["openai", "anthropic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def completion(usage: Any = COUNTED, finish: str = "stop", **message: Any) -> Answer:
    """A chat completion with ``message`` as it stands."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Answer(body=json.dumps({**COMPLETION, "choices": [choice], "usage": usage}))


def message(*content: Any, usage: Any = COUNTED, stop: str = "end_turn") -> Answer:
    """A message of Anthropic's with ``content`` as it stands."""
    frame = {"id": "m", "type": "message", "role": "assistant", "model": "small", "stop_reason": stop}
    return Answer(body=json.dumps({**frame, "content": content, "usage": usage}))


def says(kind: str, text: str, **more: Any) -> Answer:
    if kind == "openai":
        return completion(content=text, **more)
    return message({"type": "text", "text": text}, **more)


def calls(kind: str, call_id: Any, name: Any, arguments: Any) -> Answer:
    if kind == "openai":
        function = {"name": name, "arguments": arguments}
        return completion(content=None, tool_calls=[{"id": call_id, "function": function}])
    return message({"type": "tool_use", "id": call_id, "name": name, "input": arguments})


async def thought_of(kind: str, *answers: Answer) -> Thought:
    with serve_model(*answers) as server:
        return await brain_at(server, kind).complete(TALK, tools=[READ])


# --- dialects ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "read"),
    [({"path": "a"}, '{"path": "a"}'), ('{"path": "a"}', '{"path": "a"}'), (None, "{}"), ([1], "[1]")],
)
async def test_arguments_may_be_an_object_or_its_text(kind, arguments, read):
    (call,) = (await thought_of(kind, calls(kind, "c1", "read_file", arguments))).tool_calls
    assert call == ToolCall(id="c1", name="read_file", arguments=read)


@pytest.mark.parametrize("call_id", [None, "", 5])
async def test_a_call_without_an_id_gets_one(kind, call_id):
    (call,) = (await thought_of(kind, calls(kind, call_id, "read_file", {}))).tool_calls
    assert call.id.startswith("call_")


async def test_a_call_without_a_name_is_one_of_an_action_that_does_not_exist(kind):
    (call,) = (await thought_of(kind, calls(kind, "c1", None, {}))).tool_calls
    assert call.name == ""


async def test_reasoning_beside_the_answer_is_not_taken_for_it(kind):
    if kind == "openai":  # llama.cpp, vLLM
        answer = completion(content=None, reasoning_content="I might call finish_task.")
    else:
        answer = message({"type": "thinking", "thinking": "I might call finish_task.", "signature": "x"})
    assert (await thought_of(kind, answer)).text == ""


async def test_an_answer_in_parts_is_one_text():
    parts = [
        {"type": "thinking", "thinking": []},
        {"type": "text", "text": "Y"},
        {"type": "text", "text": "es"},
    ]
    assert (await thought_of("openai", completion(content=parts))).text == "Yes"


async def test_an_error_in_place_of_an_answer_is_told_and_tried_again():
    error = Answer(body=json.dumps({"error": {"message": "Provider returned error", "code": 502}}))
    within = {"error": {"message": "Provider gone"}, "message": {"role": "assistant", "content": ""}}
    later = Answer(body=json.dumps({**COMPLETION, "choices": [within]}))
    assert (await thought_of("openai", error, later, Answer(text="Yes."))).text == "Yes."
    with pytest.raises(ModelUnavailable, match="broke off with an error: Provider returned error"):
        await thought_of("openai", error)


async def test_comments_between_the_pieces_of_a_stream_are_none():
    pieces = [
        {"delta": {"content": "Y"}},
        {"delta": {"content": "es"}},
        {"delta": {}, "finish_reason": "stop"},
    ]
    events = [f"data: {json.dumps({**COMPLETION, 'choices': [{'index': 0, **piece}]})}" for piece in pieces]
    body = "\n\n".join([": OPENROUTER PROCESSING", events[0], ": OPENROUTER PROCESSING", *events[1:], ""])
    answer = Answer(body=body, headers={"content-type": "text/event-stream"})
    with serve_model(answer) as server:
        *texts, whole = await collect(brain_at(server, "openai").stream(TALK))
    assert ("".join(map(str, texts)), whole.text) == ("Yes", "Yes")


async def test_a_refusal_is_no_answer(kind):
    stop = {"finish": "content_filter"} if kind == "openai" else {"stop": "refusal"}
    with pytest.raises(ModelError, match=r"refuses to answer this. Word the task differently") as raised:
        await thought_of(kind, says(kind, "", **stop))
    assert not isinstance(raised.value, ModelUnavailable)
    assert (await thought_of(kind, says(kind, "No, since it harms.", **stop))).text


TOO_LONG = {
    "OpenAI": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.",
    "vLLM": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size",
    "LM Studio": "the model is loaded with context length of only 4096 tokens, which is not enough",
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
}


async def test_a_conversation_longer_than_the_model_reads_is_said_with_the_cure(kind):
    refusals = [
        Answer(status=400, body=json.dumps({"error": {"message": said}})) for said in TOO_LONG.values()
    ]
    sentence = r"was sent more than .*:small can read.*Set MAILROOM_BRAIN_CONTEXT"
    with serve_model(*refusals) as server:
        for said in TOO_LONG.values():
            with pytest.raises(ModelError, match=sentence) as raised:
                await brain_at(server, kind).complete(TALK)
            assert said.rstrip(".") in str(raised.value)
    assert len(server.requests) == len(TOO_LONG)


# --- harm ----------------------------------------------------------------------------------------


async def test_a_count_that_is_none_is_estimated(kind):
    counts = [-5, 10**18, "12", 1.5, float("inf"), None]
    answers = [says(kind, "a" * 400, usage=dict.fromkeys(COUNTED, count)) for count in counts]
    with serve_model(*answers) as server:
        for count in counts:
            taken = (await brain_at(server, kind).complete(TALK)).usage
            assert (taken.output_tokens, taken.estimated) == (100, True), count
            assert 0 < taken.input_tokens < 100


async def test_half_a_character_does_not_get_in(kind):
    thought = await thought_of(kind, says(kind, "a\ud800b\0"))
    assert thought.text == "a?b\0"
    (call,) = (await thought_of(kind, calls(kind, "\ud800", "\ud800", '{"a": "\ud800"}'))).tool_calls
    assert call == ToolCall(id="?", name="?", arguments='{"a": "?"}')
    msgspec.json.encode(thought)


async def test_half_a_character_in_a_structured_answer_is_asked_for_again(kind):
    with serve_model(r'{"word": "\ud800"}', '{"word": "whole"}') as server:
        answer, usage = await ask_for(brain_at(server, kind), TALK, Word)
    assert (answer.word, usage.calls) == ("whole", 2)


async def test_half_a_character_in_arguments_goes_out_as_something_else(kind):
    made = ToolCall(id="c1", name="read_file", arguments=r'{"path": "\ud800"}')
    with serve_model("Done.") as server:
        talk = [*TALK, Message(role="assistant", tool_calls=(made,))]
        assert (await brain_at(server, kind).complete(talk, tools=[READ])).text == "Done."
    assert "malformed" in str(server.requests[0].body["messages"])


@pytest.mark.parametrize("form", ["openai", "openai-responses", "anthropic"])
async def test_a_message_cut_off_in_a_call_says_so(form: str):
    stop = "max_tokens" if form == "anthropic" else "length"
    thought = await thought_of(form, Answer(calls=[("read_file", {"path": "a"})], stop=stop))
    assert (thought.stop, len(thought.tool_calls)) == ("length", 1)


@pytest.mark.parametrize(("form", "talk"), [("openai", "messages"), ("openai-responses", "input")])
async def test_arguments_go_out_as_the_model_wrote_them(form: str, talk: str):
    written = '{ "path" :  "\\u00e9",\n"b":1.0, "path":"a" }'
    made = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="read_file", arguments=written),))
    with serve_model("Done.") as server:
        await brain_at(server, form).complete([*TALK, made], tools=[READ])
    sent = str([each for each in server.requests[0].body[talk] if "read_file" in str(each)])
    assert repr(written)[1:-1] in sent


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(body=" " * 5_000), "it has more than 1,000 bytes"),
        (Answer(body="x", headers={"content-encoding": "gzip"}), "it is compressed, which was not asked for"),
        (Answer(body="{}", headers={"x-long": "y" * 200_000}), "broke off: "),
    ],
    ids=["endless", "bomb", "headers"],
)
async def test_no_answer_takes_more_memory_than_it_may(kind, monkeypatch, answer, reason):
    monkeypatch.setattr("shared.llm.clients.LONGEST", 1_000)
    with pytest.raises(ModelUnavailable, match=reason):
        await thought_of(kind, answer)


async def test_a_stream_without_end_has_one(kind, monkeypatch):
    monkeypatch.setattr("shared.llm.clients.LONGEST", 2_000)
    endless = pytest.raises(ModelUnavailable, match="it has more than 2,000 bytes")
    with serve_model(Answer(text="x" * 10_000)) as server, endless:
        await collect(brain_at(server, kind).stream(TALK))


async def test_what_a_server_says_does_not_reach_the_terminal_as_it_stands(kind):
    said = json.dumps({"error": {"message": f"\x1b[2J\x07No {KEY}\0" + "x" * 10_000}})
    with pytest.raises(ModelError) as raised:
        await thought_of(kind, Answer(status=400, body=said))
    text = str(raised.value)
    assert text.isprintable()
    assert "[2J No (hidden) xxx" in text
    assert len(text) < 500


async def test_a_date_to_wait_for_that_has_passed_is_no_wait(kind):
    past = Answer(status=429, headers={"retry-after": "Mon, 01 Jan 1990 00:00:00 GMT"})
    assert (await thought_of(kind, past, Answer(text="Yes."))).text == "Yes."
