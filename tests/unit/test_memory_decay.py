import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.graph import decay
from shared.contracts import Edge

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def is_hidden(edge: Edge, importance: float, moment: float) -> bool:
    return decay.effective(edge, importance, moment) < decay.HIDDEN


def is_deleted(edge: Edge, importance: float, moment: float) -> bool:
    return decay.effective(edge, importance, moment) < decay.DELETED


def edge(weight=1.0, by="similarity", touched=NOON, **fields):
    return Edge(
        from_id="a",
        to_id="b",
        weight=weight,
        provenance={"by": by},
        touched_at=touched.isoformat() if touched else "",
        **fields,
    )


def at(**ahead):
    return (NOON + timedelta(**ahead)).timestamp()


def test_a_fresh_edge_weighs_what_it_is_stored_with():
    assert decay.effective(edge(0.7), 0.5, at()) == 0.7


def test_a_hundred_days_between_unimportant_nodes_leave_one_part_in_e():
    assert decay.effective(edge(), 0.0, at(days=100)) == pytest.approx(math.exp(-1))


def test_importance_slows_down_to_a_fifth():
    assert decay.effective(edge(), 1.0, at(days=500)) == pytest.approx(math.exp(-1))
    assert decay.effective(edge(), 0.5, at(days=100)) == pytest.approx(math.exp(-0.6))


@pytest.mark.parametrize("by", ["manual", "imported"])
def test_what_somebody_drew_on_purpose_keeps_its_weight(by):
    assert decay.effective(edge(0.3, by), 0.0, at(days=10_000)) == 0.3
    assert decay.reinforce(edge(0.3, by), 0.0, at(days=10_000)) is None


@pytest.mark.parametrize("by", ["similarity", "structural", "contradiction", "dedup", "", None, ["manual"]])
def test_everything_else_fades(by):
    assert decay.effective(edge(0.3, by), 0.0, at(days=10)) < 0.3


def test_an_edge_without_a_touch_fades_from_its_creation_on_and_one_without_times_never():
    created = edge(touched=None, created_at=NOON.isoformat())
    assert decay.effective(created, 0.0, at(days=100)) == pytest.approx(math.exp(-1))
    assert decay.effective(edge(touched=None), 0.0, at(days=100)) == 1.0


def test_an_edge_of_the_future_has_its_weight():
    assert decay.effective(edge(0.5), 0.0, at(days=-3)) == 0.5


def test_times_of_other_zones_and_of_none_are_the_same_moments():
    local = datetime.fromisoformat("2026-03-01T14:00:00+02:00")
    naive = datetime.fromisoformat("2026-03-01T12:00:00")
    weights = {decay.effective(edge(touched=when), 0.2, at(days=9)) for when in (NOON, local, naive)}
    assert len(weights) == 1


def test_hidden_begins_below_a_tenth():
    assert not is_hidden(edge(0.1), 0.0, at())
    assert is_hidden(edge(0.1), 0.0, at(minutes=1))
    days = 100 * math.log(10)
    assert not is_hidden(edge(), 0.0, at(days=days - 0.01))
    assert is_hidden(edge(), 0.0, at(days=days + 0.01))


def test_deleted_begins_below_a_twentieth_and_a_hidden_edge_is_still_stored():
    days = 100 * math.log(20)
    assert not is_deleted(edge(), 0.0, at(days=days - 0.01))
    assert is_hidden(edge(), 0.0, at(days=days - 0.01))
    assert is_deleted(edge(), 0.0, at(days=days + 0.01))
    assert not is_deleted(edge(0.05), 0.0, at())


def test_an_edge_of_an_important_node_outlives_one_of_an_unimportant():
    when = at(days=300)
    assert is_deleted(edge(), 0.0, when)
    assert not is_hidden(edge(), 1.0, when)


def test_looking_every_hour_gives_the_same_as_looking_once_a_month():
    """It is computed from what is stored, and looking stores nothing."""
    looked = [decay.effective(edge(0.9), 0.3, at(hours=hour)) for hour in range(1, 30 * 24 + 1)]
    assert looked[-1] == decay.effective(edge(0.9), 0.3, at(days=30))
    hourly = 0.9
    for _ in range(30 * 24):
        hourly *= decay.effective(edge(1.0), 0.3, at(hours=1))
    assert hourly == pytest.approx(looked[-1])


def test_reinforcement_gives_back_a_tenth_of_what_is_missing_and_starts_the_time_anew():
    old = edge(0.8)
    now = decay.effective(old, 0.5, at(days=50))
    stronger = decay.reinforce(old, 0.5, at(days=50))
    assert stronger.weight == pytest.approx(now + 0.1 * (1 - now))
    assert decay.parse_time(stronger.touched_at) == at(days=50)
    assert stronger.created_at == old.created_at
    assert stronger.provenance == old.provenance
    assert decay.effective(stronger, 0.5, at(days=50)) == stronger.weight
    assert old.weight == 0.8


def test_an_edge_is_reinforced_once_a_day_at_most():
    assert decay.reinforce(edge(), 0.5, at(hours=23, minutes=59, seconds=59)) is None
    stronger = decay.reinforce(edge(0.5), 0.5, at(days=1))
    assert stronger is not None
    assert decay.reinforce(stronger, 0.5, at(days=1, hours=23)) is None
    assert decay.reinforce(stronger, 0.5, at(days=2)) is not None


def test_reinforcement_never_goes_beyond_one():
    current = edge(1.0)
    for day in range(1, 400):
        current = decay.reinforce(current, 1.0, at(days=day)) or current
    assert 0.9 < current.weight <= 1.0


@given(
    weight=st.floats(0, 1),
    importance=st.floats(0, 1),
    days=st.floats(-5, 5_000),
    by=st.sampled_from(["manual", "imported", "similarity"]),
)
def test_many_at_once_weigh_what_each_does_alone(weight, importance, days, by):
    one = edge(weight, by)
    moment = at() + days * decay.DAY
    many = decay.effective_weights(
        np.array([weight]),
        np.array([at()]),
        np.array([importance]),
        np.array([decay.is_exempt(one.provenance)]),
        moment,
    )
    assert many[0] == pytest.approx(decay.effective(one, importance, moment), abs=1e-9)
    assert 0 <= many[0] <= weight
