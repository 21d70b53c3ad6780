"""Brains against servers that speak the real wire formats, well and badly."""

import asyncio
import base64
import json
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import pytest

from services.cli.commands.doctor import check_models
from shared import settings
from shared.bus import Bus
from shared.bus.connecting import RunningInstance
from shared.errors import ConfigError, ModelError, ModelUnavailable
from shared.llm import LanguageModel, Message, Thought, Tool, ToolCall, Usage, ask_for
from shared.llm.anthropic import AnthropicProvider
from shared.llm.config import configured_model
from shared.llm.openai import OpenAIProvider
from shared.llm.probing import describe_model
from shared.llm.protocol import Attached, Price, find_kind
from shared.llm.remote import RemoteModel, RetryPolicy
from shared.llm.responses import ResponsesProvider
from shared.memory import Memory
from shared.queries.checks import Check
from shared.reasoning.conversation import Conversation
from shared.reasoning.model import ModelSession
from shared.settings import Settings
from shared.tasks.profiles import Profile
from tests.support.model_formats import Answer, Request
from tests.support.model_server import ModelServer, serve_model
from tests.support.prompt_caches import list_blocks

KEY = "sk-0123456789secret"
WIRES = {
    "openai": OpenAIProvider,
    "openai-responses": ResponsesProvider,
    "anthropic": AnthropicProvider,
}
QUICK = RetryPolicy(first_wait=0.01, longest_wait=0.02, longest_refused=0.3)
TALK = [Message(role="system", text="You are Engineer."), Message(role="user", text="Hello")]
READ = Tool(
    name="read_file",
    description="Reads a file.",
    schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
TEXT = "A text that comes in several pieces."


class Plan(msgspec.Struct):
    steps: list[str]


@pytest.fixture(params=list(WIRES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def config(kind: str, server: ModelServer, model: str = "small", key: str = KEY) -> Settings:
    return settings.load(
        {
            "MAILROOM_STATE_DIR": "/nowhere",
            "MAILROOM_BRAIN": f"{kind}:{model}",
            "MAILROOM_BRAIN_URL": server.url,
            "MAILROOM_BRAIN_KEY": key,
            "OPENAI_API_KEY": f"{KEY}-of-the-provider",
            "MAILROOM_BRAIN_PRICE": "3/15",
            "MAILROOM_BRAIN_TIMEOUT": "20",
        }
    )


def brain_at(server: ModelServer, kind: str, key: str = KEY) -> RemoteModel:
    choice = configured_model(config(kind, server, key=key))
    assert choice
    return RemoteModel(choice, WIRES[kind](choice), QUICK)


async def collect(pieces: AsyncIterator[str | Thought]) -> list[str | Thought]:
    return [piece async for piece in pieces]


# --- well ----------------------------------------------------------------------------------------


async def test_an_answer_comes_with_its_tokens_and_cost(kind):
    with serve_model("Yes.") as server:
        thought = await brain_at(server, kind).complete(TALK)
    assert (thought.text, thought.stop, thought.model) == ("Yes.", "end", "small")
    assert thought.usage == Usage(input_tokens=11, output_tokens=7, cost=(33 + 105) / 1e6, calls=1)


async def test_what_a_cache_held_is_counted_at_its_own_price(kind):
    price = Price(input=3, output=15, cached=0.3, written=3.75)
    with serve_model(Answer(text="Yes.", input_tokens=1000, cached_tokens=900)) as server:
        choice = configured_model(config(kind, server))
        assert choice
        brain = RemoteModel(choice, WIRES[kind](msgspec.structs.replace(choice, price=price)), QUICK)
        usage = (await brain.complete(TALK)).usage
        *_, streamed = await collect(brain.stream(TALK))
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (1000, 900, 7)
    assert usage.cost == pytest.approx((100 * 3 + 900 * 0.3 + 7 * 15) / 1e6)
    assert isinstance(streamed, Thought)
    # Chat completions count a stream only if they are asked to, which they are.
    assert (streamed.usage.input_tokens, streamed.usage.cached_tokens) == (1000, 900)


async def test_what_was_written_to_the_cache_costs_more():
    with serve_model(Answer(text="Yes.", input_tokens=1000, written_tokens=400)) as server:
        choice = configured_model(config("anthropic", server))
        assert choice
        dear = msgspec.structs.replace(choice, price=Price(input=3, output=15, written=3.75))
        usage = (await RemoteModel(choice, AnthropicProvider(dear), QUICK).complete(TALK)).usage
    assert (usage.input_tokens, usage.written_tokens) == (1000, 400)
    assert usage.cost == pytest.approx((600 * 3 + 400 * 3.75 + 7 * 15) / 1e6)


@pytest.mark.parametrize("kind", ["openai-responses", "anthropic"])
async def test_reasoning_goes_back_as_it_came_and_to_its_own_model_alone(kind):
    call = Answer(calls=[("read_file", {"path": "a"})], reasoning="gAAAA=")
    with serve_model(call, "Done.") as server:
        brain = brain_at(server, kind)
        thought = await brain.complete(TALK, tools=[READ])
        talk = Conversation("Hello")
        (asked,) = talk.add_thought(thought)
        talk.add_result(asked, "one")
        await brain.complete([TALK[0], *talk.messages], tools=[READ])
        assert "gAAAA=" in str(server.requests[1].body)
        other = configured_model(config(kind, server, model="other"))
        assert other
        await RemoteModel(other, WIRES[kind](other), QUICK).complete(talk.messages, tools=[READ])
        assert "gAAAA=" not in str(server.requests[2].body)
        assert brain.name == thought.by == talk.messages[1].kept_for


async def test_at_most_four_places_of_a_request_are_marked_to_be_cached():
    talk = list(TALK)
    for number in range(6):
        talk += [Message(role="assistant", text=f"a{number}"), Message(role="user", text=f"b{number}")]
    with serve_model("Yes.") as server:
        await brain_at(server, "anthropic").complete(talk, tools=[READ])
    body = server.requests[0].body
    marked = [text for text, mark in list_blocks(body) if mark]
    assert len(marked) == 4
    assert "read_file" in marked[0]
    assert "b5" in marked[-1]


async def test_effort_temperature_and_length_are_sent_as_the_format_names_them(kind):
    with serve_model("Yes.") as server:
        choice = configured_model(config(kind, server))
        assert choice
        set_up = msgspec.structs.replace(choice, effort="low", temperature=0.5, answer=3000)
        await RemoteModel(set_up, WIRES[kind](set_up), QUICK).complete(TALK)
    body = server.requests[0].body
    assert body["temperature"] == 0.5
    if kind == "openai":
        assert body["reasoning_effort"] == "low"
    elif kind == "openai-responses":
        assert body["reasoning"] == {"effort": "low"}
    else:
        assert (body["output_config"], body["max_tokens"]) == ({"effort": "low"}, 3000)


async def test_a_server_that_does_not_count_is_estimated(kind):
    with serve_model(Answer(text="a" * 400, counted=False)) as server:
        usage = (await brain_at(server, kind).complete(TALK)).usage
        assert (usage.output_tokens, usage.estimated) == (100, True)
        *_, streamed = await collect(brain_at(server, kind).stream(TALK))
    assert isinstance(streamed, Thought)
    assert (streamed.usage.output_tokens, streamed.usage.estimated) == (100, True)


async def test_the_system_prompt_and_the_key_go_where_the_format_has_them(kind):
    with serve_model("Yes.") as server:
        await brain_at(server, kind).complete(TALK, max_tokens=99)
    sent = server.requests[0]
    assert KEY in (sent.headers.get("authorization", "") + sent.headers.get("x-api-key", ""))
    assert sent.body["max_output_tokens" if kind == "openai-responses" else "max_tokens"] == 99
    if kind == "openai-responses":
        assert sent.body["instructions"] == "You are Engineer."
    elif kind == "anthropic":
        assert [block["text"] for block in sent.body["system"]] == ["You are Engineer."]
        assert [message["role"] for message in sent.body["messages"]] == ["user"]
    else:
        assert sent.body["messages"][0] == {"role": "system", "content": "You are Engineer."}


async def test_tools_are_offered_called_and_answered(kind):
    talk = [*TALK]
    with serve_model(Answer(text="I read.", calls=[("read_file", {"path": "a"})] * 2), "Done.") as server:
        brain = brain_at(server, kind)
        thought = await brain.complete(talk, tools=[READ])
        assert thought.stop == "tools"
        assert [(call.name, msgspec.json.decode(call.arguments)) for call in thought.tool_calls] == [
            ("read_file", {"path": "a"})
        ] * 2
        talk.append(Message(role="assistant", text=thought.text, tool_calls=thought.tool_calls))
        talk += [
            Message(role="tool", text=text, tool_call_id=call.id)
            for text, call in zip(("one", ""), thought.tool_calls, strict=True)
        ]
        talk.append(Message(role="user", text="Go on."))
        assert (await brain.complete(talk, tools=[READ])).text == "Done."
    assert "read_file" in str(server.requests[0].body["tools"])


async def test_malformed_arguments_come_back_as_written_and_go_out_as_an_object():
    with serve_model(Answer(calls=[("read_file", '{"path": ')]), "Done.") as server:
        brain = brain_at(server, "openai")
        thought = await brain.complete(TALK, tools=[READ])
        assert thought.tool_calls == (ToolCall(id="call_0", name="read_file", arguments='{"path": '),)
        told = Message(role="assistant", tool_calls=thought.tool_calls)
        assert (await brain.complete([*TALK, told], tools=[READ])).text == "Done."


class Step(msgspec.Struct):
    action: str
    after: tuple[int, ...] = ()
    why: str = "none"


class Deep(msgspec.Struct):
    steps: list[Step]
    level: Literal["low", "high"] = "low"


async def test_a_structured_answer_is_asked_for_natively(kind):
    given = '{"steps": [{"action": "look", "after": null, "why": null}], "level": null}'
    with serve_model(given) as server:
        plan, usage = await ask_for(brain_at(server, kind), TALK, Deep)
    # Held to every field, a model writes null for what it leaves to the default.
    assert (plan, usage.calls) == (Deep(steps=[Step(action="look")]), 1)
    body = server.requests[0].body
    if kind == "openai":
        native = body["response_format"]["json_schema"]
    elif kind == "openai-responses":
        native = body["text"]["format"]
    else:
        assert body["tools"][0]["input_schema"]["required"] == ["steps"]
        return
    assert native["strict"] is True
    assert native["schema"]["required"] == ["steps", "level"]


async def test_an_answer_with_any_fields_is_asked_for_by_a_schema_that_holds_to_nothing(kind):
    class Free(msgspec.Struct):
        facts: dict[str, Any]

    with serve_model('{"facts": {"a": 1}}') as server:
        found, _ = await ask_for(brain_at(server, kind), TALK, Free)
    assert found.facts == {"a": 1}
    shape = server.requests[0].body.get("response_format", {}).get("json_schema", {})
    assert "strict" not in shape


async def test_a_wrong_structure_is_asked_for_again(kind):
    with serve_model('{"steps": "look"}', '{"steps": ["look"]}') as server:
        plan, usage = await ask_for(brain_at(server, kind), TALK, Plan)
    assert (plan.steps, usage.calls) == (["look"], 2)
    assert "Expected `array`, got `str`" in str(server.requests[1].body)


async def test_an_answer_that_reached_its_length_says_so(kind):
    stop = "max_tokens" if kind == "anthropic" else "length"
    with serve_model(Answer(text="Half a", stop=stop)) as server:
        assert (await brain_at(server, kind).complete(TALK)).stop == "length"


async def test_a_stream_comes_in_pieces_and_ends_with_the_whole(kind):
    with serve_model(Answer(text=TEXT, stall=0.1)) as server:
        began, times = time.monotonic(), []
        pieces = []
        async for piece in brain_at(server, kind).stream(TALK):
            pieces.append(piece)
            times.append(time.monotonic() - began)
    *texts, whole = pieces
    assert "".join(map(str, texts)) == TEXT
    assert len(texts) > 3
    assert times[-1] - times[0] > 0.05
    assert isinstance(whole, Thought)
    assert (whole.text, whole.usage.output_tokens, whole.usage.estimated) == (TEXT, 7, False)


async def test_a_stream_may_be_left(kind):
    with serve_model(Answer(text=TEXT * 100, stall=0.01)) as server:
        stream = brain_at(server, kind).stream(TALK)
        assert await anext(stream)
        await stream.aclose()


async def test_reasoning_in_front_of_an_answer_is_left_out():
    thinking = "I might call finish_task."
    # Its beginning may stand in the server's prompt, and its end be cut off.
    for text, answer in (("<think>{}</think>\n\nNo.", "No."), ("{}</think>No.", "No."), ("<think>{}", "")):
        with serve_model(text.format(thinking)) as server:
            assert (await brain_at(server, "openai").complete(TALK)).text == answer


# --- what servers do not know --------------------------------------------------------------------


def refuse(field: str, message: str, status: int = 400) -> Any:
    def answer(request: Any) -> Answer:
        if field in request.body:
            return Answer(status=status, body=f'{{"error": {{"message": "{message}"}}}}')
        return Answer(text='{"steps": ["look"]}')

    return answer


WIRED = ["openai", "openai-responses"]


@pytest.mark.parametrize("wire", WIRED)
async def test_a_server_that_refuses_a_shape_is_asked_in_the_next_way_from_then_on(wire):
    asked: list[str] = []

    def answer(request: Any) -> Answer:
        chat = request.body.get("response_format", {}).get("json_schema")
        native = chat or request.body.get("text", {}).get("format")
        how = "text" if "tool_choice" not in request.body else "tool"
        how = how if not native else "strict" if native.get("strict") else "schema"
        asked.append(how)
        if how == "strict":
            return refused("Invalid schema: strict is not supported")
        if how == "schema":
            return refused("response_format json_schema is not supported")
        if how == "tool" and many:
            return refused("tool_choice forces tool use, which is not supported")
        given = '{"steps": ["look"]}'
        return Answer(calls=[("give_answer", given)]) if how == "tool" else Answer(text=given)

    def refused(message: str) -> Answer:
        return Answer(status=400, body=f'{{"error": {{"message": "{message}"}}}}')

    for many in (False, True):
        asked.clear()
        with serve_model(by=answer) as server:
            for _ in range(2):  # a model of its own each: what is known is known of the server
                assert (await ask_for(brain_at(server, wire), TALK, Plan))[0].steps == ["look"]
        last = "text" if many else "tool"
        assert asked == ["strict", "schema", "tool", *(["text"] if many else []), last]


async def test_a_server_without_json_schemas_is_made_to_call_a_tool_from_then_on():
    with serve_model(by=refuse("response_format", "response_format json_schema is not supported")) as server:
        brain = brain_at(server, "openai")
        for _ in range(2):
            assert (await ask_for(brain, TALK, Plan))[0].steps == ["look"]
    assert ["response_format" in request.body for request in server.requests] == [True, False, False]
    assert server.requests[-1].body["tool_choice"]["function"] == {"name": "give_answer"}


async def test_a_model_that_takes_no_forced_tool_is_asked_by_the_prompt():
    with serve_model(
        by=refuse("tool_choice", "tool_choice forces tool use, which is not supported")
    ) as server:
        assert (await ask_for(brain_at(server, "anthropic"), TALK, Plan))[0].steps == ["look"]
    assert '"required": ["steps"]' in server.requests[-1].body["system"][-1]["text"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/small does not support tools"),
        (400, "auto tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"),
        (500, "tools param requires --jinja flag"),
        (404, "No endpoints found that support tool use"),
    ],
)
async def test_a_server_without_tools_gets_them_in_the_prompt(status, message):
    talk = [
        *TALK,
        Message(role="assistant", tool_calls=(ToolCall(id="1", name="read_file", arguments="{}"),)),
        Message(role="tool", text="content", tool_call_id="1"),
    ]
    with serve_model(by=refuse("tools", message, status)) as server:
        brain = brain_at(server, "openai")
        assert (await brain.complete(talk, tools=[READ])).text
        assert (await brain.complete(talk, tools=[READ])).text
    assert ["tools" in request.body for request in server.requests] == [True, False, False]
    sent = server.requests[-1].body["messages"]
    assert "- read_file: Reads a file." in sent[0]["content"]
    assert sent[-1] == {"role": "user", "content": "Result of read_file:\ncontent"}


async def test_a_model_that_wants_the_new_name_of_the_limit_gets_it():
    with serve_model(
        by=refuse("max_tokens", "max_tokens is not supported, use max_completion_tokens")
    ) as server:
        await brain_at(server, "openai").complete(TALK, max_tokens=50)
    assert server.requests[-1].body["max_completion_tokens"] == 50


# --- badly ---------------------------------------------------------------------------------------

PASSING = {
    "429": Answer(status=429),
    "408": Answer(status=408),
    "409": Answer(status=409),
    "500": Answer(status=500),
    "529": Answer(status=529),
    "malformed JSON": Answer(body='{"choices": [{"mess'),
    "null": Answer(body="null"),
    "another format": Answer(body='{"choices": [], "content": 5}'),
    "a web page": Answer(body="<html>Hello</html>", headers={"content-type": "text/html"}),
    "a truncated body": Answer(text="Half", cut=30),
    "a reset": Answer(reset=True),
}


@pytest.mark.parametrize("fault", PASSING)
async def test_what_can_pass_is_tried_again(kind, fault):
    with serve_model(PASSING[fault], PASSING[fault], "Yes.") as server:
        assert (await brain_at(server, kind).complete(TALK)).text == "Yes."
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", ["500", "malformed JSON", "a reset"])
async def test_what_does_not_pass_is_unavailable_after_four_attempts(kind, fault):
    with serve_model(PASSING[fault]) as server, pytest.raises(ModelUnavailable) as raised:
        await brain_at(server, kind).complete(TALK)
    assert f"The model server at {server.url}" in str(raised.value)
    assert len(server.requests) == 4
    assert KEY not in repr(raised.value)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (400, "refuses the request with status 400: No sense"),
        (401, "does not accept the key for .*:small. Correct MAILROOM_BRAIN_KEY"),
        (403, "refuses .*:small: No sense in .hidden.. Check the account"),
        (404, "has no model 'small'.*Correct MAILROOM_BRAIN or MAILROOM_BRAIN_URL"),
        (307, "sends the request elsewhere .status 307.*the key would go along.*MAILROOM_BRAIN_URL"),
    ],
)
async def test_what_cannot_pass_is_not_tried_again_and_shows_no_key(kind, status, sentence):
    wrong = Answer(
        status=status,
        body=f'{{"error": {{"message": "No sense\\n in {KEY}."}}}}',
        headers={"location": "/v1/elsewhere"},
    )
    with serve_model(wrong, "Yes.") as server, pytest.raises(ModelError, match=sentence) as raised:
        await brain_at(server, kind).complete(TALK)
    assert not isinstance(raised.value, ModelUnavailable)
    assert len(server.requests) == 1
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_is_given_no_key_and_wants_one_is_told_which_to_set(kind, status):
    sentence = "wants a key for .*:small, and none is set: .*Set MAILROOM_BRAIN_KEY; .*_API_KEY goes to its"
    with serve_model(Answer(status=status, body="{}")) as server, pytest.raises(ModelError, match=sentence):
        await brain_at(server, kind, key="").complete(TALK)
    assert KEY not in str(server.requests[0].headers)


async def test_a_spent_account_is_not_tried_again():
    body = '{"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}'
    with (
        serve_model(Answer(status=429, body=body), "Yes.") as server,
        pytest.raises(ModelError, match="Check the account"),
    ):
        await brain_at(server, "openai").complete(TALK)
    assert len(server.requests) == 1


async def test_retry_after_is_waited_for(kind):
    with serve_model(Answer(status=429, headers={"retry-after": "1"}), "Yes.") as server:
        began = time.monotonic()
        choice = configured_model(config(kind, server))
        assert choice
        await RemoteModel(choice, WIRES[kind](choice)).complete(TALK)
        assert 1 <= time.monotonic() - began < 4


async def test_a_wait_that_the_server_asks_for_is_no_part_of_the_deadline(kind):
    with serve_model(Answer(status=429, headers={"retry-after": "2"}), "Yes.") as server:
        choice = configured_model(config(kind, server))
        assert choice
        thought = await RemoteModel(choice, WIRES[kind](choice)).complete(TALK, timeout=1)
    assert thought.text == "Yes."
    assert 2 <= thought.usage.waited < 5


async def test_a_retry_after_beyond_a_minute_ends_the_call(kind):
    with serve_model(Answer(status=429, headers={"retry-after": "61"}), "Yes.") as server:
        began = time.monotonic()
        with pytest.raises(ModelUnavailable, match="asks to wait 61 s"):
            await brain_at(server, kind).complete(TALK)
        assert time.monotonic() - began < 3


async def test_a_server_that_only_refuses_is_given_up_and_no_breaker_opens(kind):
    with serve_model(Answer(status=429)) as server:
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match="status 429"):
                await brain_at(server, kind).complete(TALK)
        assert len(server.requests) > 10


async def test_a_hang_ends_at_the_deadline(kind):
    with serve_model(Answer(hang=30)) as server:
        brain = brain_at(server, kind)
        for call in (brain.complete(TALK, timeout=0.3), collect(brain.stream(TALK, timeout=0.3))):
            began = time.monotonic()
            with pytest.raises(
                ModelUnavailable, match=r"did not answer within 0.3 s. Raise MAILROOM_BRAIN_TIMEOUT"
            ):
                await call
            assert time.monotonic() - began < 3


async def test_a_stream_that_stalls_ends_at_the_deadline(kind):
    stalling = Answer(text=TEXT * 20, stall=0.1)
    with serve_model(stalling) as server, pytest.raises(ModelUnavailable, match="within 1 s"):
        await collect(brain_at(server, kind).stream(TALK, timeout=1))


async def test_a_consumer_of_a_stream_may_take_its_time(kind):
    with serve_model(TEXT) as server:
        pieces = []
        async for piece in brain_at(server, kind).stream(TALK, timeout=1):
            pieces.append(piece)
            await asyncio.sleep(0.25)
    assert isinstance(pieces[-1], Thought)


async def test_a_truncated_stream_is_no_answer(kind):
    pieces = []

    async def listen(server: ModelServer) -> None:
        async for piece in brain_at(server, kind).stream(TALK):
            pieces.append(piece)  # noqa: PERF401 - what came before the error counts

    with serve_model(Answer(text=TEXT, cut=5)) as server:
        with pytest.raises(ModelUnavailable, match="its end is missing"):
            await listen(server)
        assert len(server.requests) == 1
    assert pieces
    assert not any(isinstance(piece, Thought) for piece in pieces)


async def test_a_stream_is_begun_again_only_before_its_first_piece(kind):
    with serve_model(Answer(status=500), Answer(reset=True), Answer(text=TEXT, cut=1), TEXT) as server:
        *_, whole = await collect(brain_at(server, kind).stream(TALK))
    assert isinstance(whole, Thought)
    assert whole.text == TEXT
    assert len(server.requests) == 4


async def test_a_server_that_is_not_there_is_named(kind):
    with serve_model() as server:
        pass
    with pytest.raises(ModelUnavailable, match=rf"{server.url} cannot be reached.*MAILROOM_BRAIN_URL"):
        await brain_at(server, kind).complete(TALK)


async def test_the_breaker_refuses_at_once_for_every_brain_of_the_server(kind):
    with serve_model(Answer(status=500)) as server:
        brain = brain_at(server, kind)
        for _ in range(2):
            with pytest.raises(ModelUnavailable):
                await brain.complete(TALK)
        asked = len(server.requests)
        with pytest.raises(ModelUnavailable, match=r"500: .*; after 5 failures in a row it is left alone"):
            await brain_at(server, kind).complete(TALK)
    assert asked == len(server.requests) == 5


async def test_a_refused_request_does_not_open_the_breaker(kind):
    with serve_model(Answer(status=400)) as server:
        brain = brain_at(server, kind)
        for _ in range(7):
            with pytest.raises(ModelError, match="refuses the request"):
                await brain.complete(TALK)


async def test_a_call_given_up_leaves_the_brain_well(kind):
    with serve_model(Answer(hang=30), "Yes.") as server:
        brain: LanguageModel = brain_at(server, kind)
        call = asyncio.ensure_future(brain.complete(TALK))
        while not server.requests:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await brain.complete(TALK)).text == "Yes."


# --- what doctor says ----------------------------------------------------------------------------


async def check_model(config: Settings) -> Check:
    (check,) = await check_models(config, quick=True)
    return check


async def test_doctor_names_the_brain_and_what_is_wrong_with_it(kind):
    with serve_model() as server:
        well = await check_model(config(kind, server))
        other = await check_model(config(kind, server, "big"))
    gone = await check_model(config(kind, server))
    assert (well.verdict, well.finding) == ("ok", f"{kind}:small (brain)")
    assert other.verdict == gone.verdict == "warn"
    assert "does not list 'big'" in other.finding
    assert "cannot be reached" in gone.finding
    assert server.requests == []


def able(request: Request) -> Answer:
    """A model that writes, calls the tool it is given, and answers by a schema."""
    said = str(request.body)
    if "forty" in said:
        return Answer(
            text="one two three four five six seven eight nine ten " * 4, output_tokens=60, stall=0.01
        )
    if "'a' to 3" in said or "a = 2" in said:
        return Answer(text='{"a": 2, "b": 3, "total": 5}')
    return Answer(calls=[("add", {"a": 2, "b": 3})])


async def test_doctor_tries_what_a_model_can_do(kind):
    with serve_model(by=able) as server:
        server.pages["/v1/models"] = {"data": [{"id": "small", "max_model_len": 32_768}]}
        (check,) = await check_models(config(kind, server))
    assert check.verdict == "ok", check
    assert f"{kind}:small (brain): context 32,768 tokens, calls tools, JSON by a" in check.finding
    assert re.search(r"[\d.]+ tokens/s after [\d.]+ s", check.finding)
    assert check.details["tools"] is True
    assert check.details["context"] == 32_768
    assert check.details["json"] == ("tool" if kind == "anthropic" else "strict")


async def test_doctor_tells_what_a_model_cannot_do_and_a_context_that_is_too_small():
    def answer(request: Request) -> Answer:
        if "tools" in request.body or "response_format" in request.body:
            return Answer(
                status=400, body='{"error": {"message": "tools and json_schema are not supported"}}'
            )
        return Answer(text="I add them: 5.")

    with serve_model(by=answer) as server:
        server.pages["/api/ps"] = {"models": [{"name": "small:latest", "context_length": 4_096}]}
        server.pages["/api/show"] = {"capabilities": ["completion", "vision"]}
        (check,) = await check_models(config("openai", server))
    assert check.verdict == "warn"
    assert "calls no tools" in check.finding
    assert "context 4,096 tokens" in check.finding
    assert "agents need 8,000" in check.finding
    assert (check.details["json"], check.details["sees"]) == (None, True)


@pytest.mark.parametrize(
    ("pages", "context"),
    [
        ({"/v1/models": {"data": [{"id": "small", "context_length": 200_000}]}}, 200_000),
        ({"/v1/models": {"data": [{"id": "other", "context_length": 5_000}]}}, 0),
        ({"/props": {"default_generation_settings": {"n_ctx": 16_384}}}, 16_384),
        ({"/api/show": {"parameters": "stop  x\nnum_ctx      24576"}}, 24_576),
        ({"/v1/models": "nothing", "/props": [1]}, 0),
    ],
)
async def test_the_context_is_found_where_each_server_tells_it(pages, context):
    with serve_model() as server:
        server.pages.update(pages)
        choice = configured_model(config("openai", server))
        assert choice
        assert (await describe_model(choice)).context == context
    assert (await describe_model(choice)).context == 0  # it is gone


async def test_prompts_are_sized_by_what_the_server_says_unless_it_is_set():
    def session(given: Settings) -> ModelSession:
        profile = Profile(name="scout", description="Reads.", prompt="You are Scout.")
        return ModelSession(profile, given, cast("Bus", None), cast("Memory", None))

    with serve_model() as server:
        server.pages["/v1/models"] = {"data": [{"id": "small", "max_model_len": 8_000}]}
        learned = session(config("openai", server))
        assert learned.context_characters == 225_000
        await learned.learn_context()
        assert learned.context_characters == 18_000
        fixed = session(msgspec.structs.replace(config("openai", server), brain_context=20_000))
        await fixed.learn_context()
        assert fixed.context_characters == 45_000
    with pytest.raises(ConfigError, match="MAILROOM_BRAIN_CONTEXT is 100"):
        configured_model(msgspec.structs.replace(config("openai", server), brain_context=100))


async def test_doctor_tries_each_model_once_and_says_whose_it_is(tmp_path: Path):
    with serve_model() as server, serve_model() as second:
        server.pages["/v1/models"] = {"data": [{"id": name} for name in ("small", "spare", "judge")]}
        (tmp_path / "mailroom.toml").write_text(
            f'brain = "openai:small"\nbrain_url = "{server.url}"\nbrain_fallback = ["openai:spare"]\n'
            f'brain_review = "openai:judge"\n[agents.scout]\nbrain = "openai:small"\n'
            f'brain_url = "{second.url}"\n[agents.cortex]\nbrain_effort = "low"\n'
        )
        checks = await check_models(settings.load({"MAILROOM_STATE_DIR": str(tmp_path)}), quick=True)
    assert [check.finding for check in checks] == [
        "openai:small (brain)",
        "openai:spare (fallback)",
        "openai:judge (review)",
        "openai:small (scout's brain)",
    ]


async def test_doctor_tells_what_the_office_that_runs_thinks_with(tmp_path: Path):
    """Its own shell may know another model than the one that ran ``mailroom up``, or none."""
    (tmp_path / "run").mkdir()
    office = RunningInstance(pid=os.getpid(), url="nats://127.0.0.1:1", brain="openai:qwen3")
    (tmp_path / "run" / "office.json").write_bytes(msgspec.json.encode(office))
    here = {"MAILROOM_STATE_DIR": str(tmp_path)}
    unset = await check_model(settings.load(here))
    assert unset.verdict == "ok"
    assert "uses openai:qwen3; not tried, since MAILROOM_BRAIN is not set here" in unset.finding
    other = await check_model(settings.load({**here, "MAILROOM_BRAIN": "scripted:/other"}))
    assert other.verdict == "warn"
    assert "uses openai:qwen3, not scripted:/other" in other.finding


async def test_doctor_reads_a_script(tmp_path: Path):
    (tmp_path / "script.yaml").write_text("- replies: []")
    values = {"MAILROOM_STATE_DIR": "/nowhere", "MAILROOM_BRAIN": f"scripted:{tmp_path}/script.yaml"}
    assert "replies are empty" in (await check_model(settings.load(values))).finding


# --- images and PDFs -----------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n" + b"a small picture"
PDF = b"%PDF-1.7 a short paper"
SHOW = [
    Message(
        role="user",
        text="Shown: plan.png, paper.pdf",
        attached=(
            Attached(name="plan.png", kind="image/png", data=PNG),
            Attached(name="paper.pdf", kind="application/pdf", data=PDF),
        ),
    ),
    Message(role="user", text="What is on it?"),
]


async def test_images_and_pdfs_are_parts_of_a_message(kind):
    with serve_model("A plan.") as server:
        assert (await brain_at(server, kind).complete(SHOW)).text == "A plan."
    (request,) = server.requests
    message = request.body["input" if kind == "openai-responses" else "messages"][-1]
    shown, picture = [part["type"] for part in message["content"]], base64.b64encode(PNG).decode()
    assert picture in json.dumps(message)
    if kind == "openai":  # a server of one's own: its format has no PDFs
        assert shown == ["image_url", "text"]
        assert "(paper.pdf cannot be shown to this model.)" in message["content"][-1]["text"]
    else:
        wanted = {"anthropic": ["image", "document", "text"]}
        assert shown == wanted.get(kind, ["input_image", "input_file", "input_text"])
    assert "What is on it?" in json.dumps(message["content"][-1])


@pytest.mark.parametrize(
    "refusal",
    [
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "small is not a multimodal model",
        "Invalid content type. image_url is only supported by certain models.",
        "No endpoints found that support image input",
    ],
)
async def test_a_model_that_does_not_see_is_told_what_there_is_from_then_on(kind, refusal):
    def blind(request: Request) -> Answer:
        if base64.b64encode(PNG).decode() in json.dumps(request.body):
            return Answer(status=400, body=json.dumps({"error": {"message": refusal}}))
        return Answer(text="I see nothing.")

    with serve_model(by=blind) as server:
        for _ in range(2):
            assert (await brain_at(server, kind).complete(SHOW)).text == "I see nothing."
    assert len(server.requests) == 3
    assert "(plan.png cannot be shown to this model.)" in json.dumps(server.requests[-1].body)


async def test_nothing_is_shown_where_that_is_switched_off(kind):
    with serve_model("Well.") as server:
        choice = configured_model(msgspec.structs.replace(config(kind, server), brain_images=False))
        assert choice
        await RemoteModel(choice, WIRES[kind](choice), QUICK).complete(SHOW)
    assert base64.b64encode(PNG).decode() not in json.dumps(server.requests[0].body)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 a photo", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (PDF, "application/pdf"),
        (b"RIFF\x10\0\0\0WAVE", ""),
        (b"<svg xmlns=", ""),
        (b"", ""),
    ],
)
def test_what_can_be_shown_is_known_by_how_it_begins(data, kind):
    assert find_kind(data) == kind
