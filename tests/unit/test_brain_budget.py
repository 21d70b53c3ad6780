"""Budgets of tasks and days, and the breaker in front of a server."""

import pytest

from shared.contracts import DailySpending
from shared.errors import BudgetSpent, ModelUnavailable
from shared.llm.protocol import Usage
from shared.llm.remote import CircuitBreaker
from shared.reasoning.spending import Budget


def day(**spent: float) -> DailySpending:
    return DailySpending(sender="scout", day="2026-01-02", **spent)


@pytest.mark.parametrize(
    ("task", "spent", "sentence"),
    [
        (
            Usage(input_tokens=900, output_tokens=100),
            day(),
            r"1,000 tokens of the 1,000.*MAILROOM_TASK_TOKENS",
        ),
        (
            Usage(),
            day(input_tokens=4_000, output_tokens=1_500),
            r"5,500 tokens on 2026-01-02.*MAILROOM_DAY_TOKENS",
        ),
        (Usage(), day(cost=2.5), r"\$2.50 on 2026-01-02 of the \$2.00.*MAILROOM_DAY_COST"),
    ],
)
def test_a_spent_budget_refuses_and_says_which(task, spent, sentence):
    budget = Budget(task_tokens=1_000, day_tokens=5_000, day_cost=2.0)
    with pytest.raises(BudgetSpent, match=sentence):
        budget.check(task, spent)
    budget.check(Usage(input_tokens=999), day(input_tokens=4_999, cost=1.99))


def test_no_limit_is_no_limit():
    Budget().check(Usage(input_tokens=10**12, cost=1e9), day(input_tokens=10**12, cost=1e9))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("http://host/v1", failures=3, pause=30, clock=clock)


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.admit()
        breaker.fail("The model server at http://host/v1 is away")


def test_it_opens_after_failures_in_a_row_and_says_until_when(breaker):
    fail(breaker, 2)
    breaker.succeed()
    fail(breaker, 3)
    with pytest.raises(
        ModelUnavailable, match=r"http://host/v1 is away; after 3 failures in a row.*until \d\d:\d\d:\d\d UTC"
    ):
        breaker.admit()


def test_after_the_pause_one_probe_goes_through_and_closes_it(breaker, clock):
    fail(breaker, 3)
    clock.now += 31
    breaker.admit()
    with pytest.raises(ModelUnavailable, match="just being tried again"):
        breaker.admit()
    breaker.succeed()
    breaker.admit()
    breaker.admit()


def test_a_probe_that_fails_opens_it_again(breaker, clock):
    fail(breaker, 3)
    clock.now += 31
    fail(breaker, 1)
    with pytest.raises(ModelUnavailable, match="left alone until"):
        breaker.admit()


def test_a_probe_nobody_waits_for_any_more_makes_room_for_another(breaker, clock):
    fail(breaker, 3)
    clock.now += 31
    breaker.admit()
    breaker.abandon()
    breaker.admit()
