from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.timeline import Timeline, TimelineMap, TimelineValue


def test_uncommitted_state_is_visible_to_decisions_and_not_to_queries() -> None:
    timeline = Timeline()
    offsets: TimelineMap[str, int] = TimelineMap(timeline)
    timeline.begin(1, is_committed=True)
    offsets["a"] = 1

    timeline.begin(2, is_committed=False)
    offsets["a"] = 2
    offsets["b"] = 1

    assert dict(offsets) == {"a": 2, "b": 1}
    assert offsets.committed("a") == 1
    assert offsets.committed("b") is None
    assert offsets.committed_items() == {"a": 1}

    timeline.commit(2)
    assert offsets.committed_items() == {"a": 2, "b": 1}


def test_removed_keys_are_visible_to_queries_until_the_removal_is_committed() -> None:
    timeline = Timeline()
    groups: TimelineMap[str, int] = TimelineMap(timeline)
    groups["g"] = 1
    timeline.begin(1, is_committed=False)
    del groups["g"]

    assert "g" not in groups
    assert groups.committed("g") == 1
    timeline.commit(1)
    assert groups.committed("g") is None


def test_put_all_equals_single_puts() -> None:
    timeline = Timeline()
    offsets: TimelineMap[str, int] = TimelineMap(timeline)
    timeline.begin(1, is_committed=True)
    offsets.put_all({"a": 1, "b": 1})
    assert offsets.committed_items() == {"a": 1, "b": 1}

    timeline.begin(2, is_committed=False)
    offsets.put_all({"b": 2, "c": 2})

    assert dict(offsets) == {"a": 1, "b": 2, "c": 2}
    assert offsets.committed_items() == {"a": 1, "b": 1}


def test_a_value_has_a_newest_and_a_committed_version() -> None:
    timeline = Timeline()
    epoch = TimelineValue(timeline, 0)
    timeline.begin(1, is_committed=False)
    epoch.value = 1
    timeline.begin(2, is_committed=False)
    epoch.value = 2

    assert (epoch.value, epoch.committed) == (2, 0)
    timeline.commit(1)
    assert (epoch.value, epoch.committed) == (2, 1)
    timeline.commit(2)
    assert (epoch.value, epoch.committed) == (2, 2)


KEYS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)), min_size=1, max_size=4)
        ),
        st.tuples(st.just("commit"), st.integers(0, 3)),
    ),
    max_size=30,
)


@given(STEPS)
def test_committed_state_is_the_state_after_the_last_committed_write(steps: list[tuple[str, object]]) -> None:
    timeline = Timeline()
    state: TimelineMap[int, int] = TimelineMap(timeline)
    history: list[dict[int, int]] = [{}]
    committed = 0
    for step, argument in steps:
        if step == "write":
            assert isinstance(argument, list)
            timeline.begin(len(history), is_committed=False)
            for key, value in argument:
                if value is None:
                    state.pop(key, None)
                else:
                    state[key] = value
            history.append(dict(state))
        else:
            assert isinstance(argument, int)
            committed = min(len(history) - 1, committed + argument)
            timeline.commit(committed)
        assert state.committed_items() == history[committed]
        assert {key: state.committed(key) for key in range(4)} == {
            key: history[committed].get(key) for key in range(4)
        }
