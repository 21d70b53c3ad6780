"""Whose turn it is at a model server, and what servers say of their limits."""

import pytest

from shared.llm.turns import HELD, Allowed, Noted, Rate, Turn, read_rates, read_span, seconds_to_wait

MANY = Allowed(requests=16)


def waits(request: str, seq: int, *, age: float = 0.0, tokens: int = 100, model: str = "m") -> Noted:
    return Noted(request, seq, age, Turn(model=model, tokens=tokens))


def runs(request: str, seq: int, *, age: float = 0.0, tokens: int = 100, model: str = "m") -> Noted:
    return Noted(request, seq, age, Turn(model=model, tokens=tokens, place=seq, state="runs"))


def over(request: str, seq: int, *, age: float = 0.0, tokens: int = 100, **more: object) -> Noted:
    turn = Turn(model="m", tokens=tokens, place=seq, state="over", **more)  # type: ignore[arg-type]
    return Noted(request, seq, age, turn)


ME = waits("me", 10)


def test_who_came_first_goes_first_up_to_the_number_at_once() -> None:
    two = Allowed(requests=2)
    assert seconds_to_wait(ME, [ME], two) == 0
    assert seconds_to_wait(ME, [ME, runs("a", 1), waits("b", 20)], two) == 0
    assert seconds_to_wait(ME, [ME, runs("a", 1), waits("b", 5)], two) > 0
    assert seconds_to_wait(ME, [ME, runs("a", 1), runs("b", 20)], two) > 0  # one that runs is not asked back
    assert seconds_to_wait(ME, [ME, runs("a", 1, model="other"), runs("b", 2)], two) > 0  # one server


def test_a_turn_that_is_not_renewed_is_free() -> None:
    one = Allowed(requests=1)
    assert seconds_to_wait(ME, [ME, runs("dead", 1, age=HELD - 1)], one) > 0
    assert seconds_to_wait(ME, [ME, runs("dead", 1, age=HELD + 1)], one) == 0
    assert seconds_to_wait(ME, [ME, waits("dead", 1, age=HELD + 1)], one) == 0


def test_tokens_of_the_last_minute_count_from_when_they_were_sent() -> None:
    allowed = Allowed(requests=16, tokens=1_000)
    spent = [over("a", 1, tokens=600, age=20), over("b", 2, tokens=350, age=20, ran=15.0)]
    assert seconds_to_wait(ME, [ME, *spent], allowed) > 0
    assert seconds_to_wait(ME, [ME, spent[0], spent[1]._replace(age=46)], allowed) == 0  # 46 + 15 s ago
    assert seconds_to_wait(ME, [ME, over("a", 1, tokens=900, age=10)], allowed) == 0  # just fits
    # What waits before it has its tokens set aside; of another model nothing is.
    assert seconds_to_wait(ME, [ME, waits("a", 5, tokens=950)], allowed) > 0
    assert seconds_to_wait(ME, [ME, waits("a", 5, tokens=950, model="other")], allowed) == 0


def test_a_request_larger_than_the_limit_goes_alone() -> None:
    allowed = Allowed(requests=16, tokens=50)
    assert seconds_to_wait(ME, [ME], allowed) == 0
    assert seconds_to_wait(ME, [ME, over("a", 1, tokens=10, age=5)], allowed) > 0
    assert seconds_to_wait(ME, [ME, over("a", 1, tokens=10, age=61)], allowed) == 0


def test_a_pause_that_the_server_asks_for_holds_for_everyone_with_that_model() -> None:
    refused = over("a", 1, tokens=0, age=3.0, pause=10.0)
    assert seconds_to_wait(ME, [ME, refused], MANY) == pytest.approx(7.0)
    assert seconds_to_wait(ME, [ME, refused._replace(age=10.5)], MANY) == 0


def test_the_server_s_word_of_what_is_left_counts_more_than_what_was_sent() -> None:
    told = over("a", 8, age=1.0, tokens=900, by_tokens=Rate(limit=1_000, left=500, reset=30.0))
    allowed = Allowed(requests=16, tokens=1_000)
    assert seconds_to_wait(ME, [ME, told], allowed) == 0
    assert seconds_to_wait(ME, [ME, told, runs("b", 9, tokens=450)], allowed) > 0
    # It comes back bit by bit: 500 in 30 s.
    assert seconds_to_wait(ME, [ME, told._replace(age=6.0), runs("b", 9, tokens=450)], allowed) == 0
    none = over("a", 8, age=0.2, by_requests=Rate(limit=60, left=0, reset=60.0))
    assert 0 < seconds_to_wait(ME, [ME, none], MANY) <= 0.5
    assert seconds_to_wait(ME, [ME, none._replace(age=2.5)], MANY) == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("6m0s", 360), ("120ms", 0.12), ("1m26.4s", 86.4), ("59", 59), ("", 0), ("soon", 0)],
)
def test_spans_are_read_as_servers_write_them(text: str, seconds: float) -> None:
    assert read_span(text) == pytest.approx(seconds)


def test_limits_are_read_from_the_headers_of_openai_and_anthropic() -> None:
    openai = {
        "X-RateLimit-Limit-Tokens": "30000",
        "x-ratelimit-remaining-tokens": "12000",
        "x-ratelimit-reset-tokens": "36s",
        "x-ratelimit-limit-requests": "14400",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-requests": "23h59m",
    }
    tokens, requests = read_rates(openai)
    assert tokens == Rate(limit=30_000, left=12_000, reset=36)
    assert requests == Rate(limit=14_400)  # one of a day: nothing to wait for
    anthropic = {
        "anthropic-ratelimit-input-tokens-limit": "50000",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-01-02T03:04:05Z",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
    }
    assert read_rates(anthropic) == (Rate(limit=50_000, left=0), Rate(limit=50, left=49))
    assert read_rates({"x-ratelimit-limit-tokens": "many", "retry-after": "3"}) == (Rate(), Rate())
    assert read_rates({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "inf"})[0].left == -1
