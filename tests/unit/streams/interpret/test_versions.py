"""Versioned tables: the value of a key at each time, compared with a dict of everything ever put."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import Builder
from penstock.streams.interpret.state import VersionedState
from penstock.streams.nouns import Change
from penstock.streams.serdes import serde_of
from penstock.testing import TopologyTest

HISTORY_MS = 20

puts = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 9), st.integers(0, 60)))


def versioned() -> VersionedState:
    return VersionedState(serde_of(str), serde_of(int), HISTORY_MS)


@settings(max_examples=200, deadline=None)
@given(puts)
def test_a_versioned_table_returns_the_last_value_before_a_time(
    found: list[tuple[str, int | None, int]],
) -> None:
    state = versioned()
    model: dict[str, dict[int, int | None]] = {"a": {}, "b": {}}
    observed_ms = -1
    for key, value, time_ms in found:
        changes = list(state.change(key, value, time_ms))
        is_too_old = time_ms < observed_ms - HISTORY_MS
        assert bool(changes) != is_too_old
        if not is_too_old:
            observed_ms = max(observed_ms, time_ms)
            is_latest = time_ms >= max(model[key], default=-1)
            assert changes[0].value.new == value
            assert changes[0].value.is_latest == is_latest
            model[key][time_ms] = value

    for key, versions in model.items():
        latest_ms = max(versions, default=-1)
        assert state.get(key) == versions.get(latest_ms)
        for time_ms in range(70):
            since_ms = max((at for at in versions if at <= time_ms), default=-1)
            is_known = since_ms == latest_ms or time_ms >= observed_ms - HISTORY_MS
            assert state.as_of(key, time_ms) == (versions.get(since_ms) if is_known else None)


def test_versions_older_than_the_history_are_deleted() -> None:
    state = versioned()
    for time_ms in range(1000):
        state.put("a", time_ms, time_ms)

    assert len(state._versions[state.place("a")]) <= HISTORY_MS + 1


def test_keys_deleted_before_the_history_are_removed() -> None:
    state = versioned()
    for time_ms in range(1000):
        state.put(str(time_ms), 1, time_ms)
        state.put(str(time_ms), None, time_ms + 1)

    assert len(state._versions) <= 1.5 * HISTORY_MS + 2


def test_a_versioned_table_is_restored() -> None:
    state, other = versioned(), versioned()
    for value, time_ms in ((1, 10), (2, 20), (3, 15)):
        state.put("a", value, time_ms)

    other.put_back(state.kept())

    assert [other.as_of("a", time_ms) for time_ms in (9, 10, 15, 20)] == [None, 1, 3, 2]
    assert other.get("a") == 2
    assert versioned().kept() is None


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (Change(1, None), True),
        (Change(None, 1), True),
        (Change(None, None), False),
        (Change(1, 2, is_latest=False), False),
    ],
)
def test_a_change_of_the_history_is_not_a_change_of_the_table(change: Change[int], counts: bool) -> None:
    assert change.counts == counts


def test_a_record_joins_the_row_of_its_time() -> None:
    app = Builder()
    prices = app.table("prices", key=str, value=int, history=60)
    orders = app.stream("orders", key=str, value=int)
    orders.join(prices, lambda count, price: count * price, value=int).to("at-once")
    orders.join(prices, lambda count, price: count * price, grace=5, value=int).to("later")

    with TopologyTest(app) as test:
        test.input("prices").send(10, key="tea", timestamp_ms=1_000)
        test.input("prices").send(30, key="tea", timestamp_ms=9_000)
        test.input("orders").send(2, key="tea", timestamp_ms=8_000)
        assert test.output("at-once").read_values() == [20]
        assert test.output("later").is_empty()

        test.input("prices").send(20, key="tea", timestamp_ms=7_000)  # late
        test.input("orders").send(1, key="tea", timestamp_ms=13_000)

        assert test.output("later").read_values() == [40]
        assert test.table("prices").get("tea") == 30
