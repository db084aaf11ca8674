"""Windows: their content, and impossible ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import Windowed, hopping, session, sliding, tumbling, unlimited, within
from penstock.streams.nouns import TopologyError
from penstock.streams.serdes import serde_of, windowed_serde
from penstock.streams.windows import NEVER_MS, TimeWindows


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(1, 50), st.integers(1, 50))
def test_a_time_belongs_to_every_window_that_contains_it(time_ms: int, size_ms: int, advance_ms: int) -> None:
    windows = TimeWindows(size_ms, min(size_ms, advance_ms), 0)

    all_starts = range(0, 600, windows.advance_ms)
    assert list(windows.starts(time_ms)) == [
        start for start in all_starts if start <= time_ms < start + size_ms
    ]


def test_lengths_are_seconds_or_a_timedelta() -> None:
    assert tumbling(60) == tumbling(timedelta(minutes=1))
    assert tumbling(0.5).size_ms == 500
    assert within(before=-1, after=5).before_ms == -1000
    assert within(timedelta(seconds=2), after=1) == within(before=2, after=1)


def test_an_unlimited_window_contains_everything_from_its_start() -> None:
    windows = unlimited(start=datetime.fromtimestamp(2, UTC))

    assert [list(windows.starts(time_ms)) for time_ms in (1999, 2000, 9000)] == [[], [2000], [2000]]
    assert windowed_serde(serde_of(str), windows).decode(b"a" + (2000).to_bytes(8, "big")) == Windowed(
        "a", 2000, NEVER_MS
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: unlimited(start=datetime(2026, 1, 1)),  # without a time zone
        lambda: unlimited(start=datetime.fromtimestamp(-1, UTC)),
        lambda: tumbling(0),
        lambda: tumbling(-1),
        lambda: tumbling(0.0001),
        lambda: tumbling("60"),  # type: ignore[arg-type]
        lambda: tumbling(True),
        lambda: hopping(5, every=6),
        lambda: hopping(5, every=0),
        lambda: session(0),
        lambda: sliding(-1),
        lambda: tumbling(1, grace=-1),
        within,
        lambda: within(before=-5, after=1),
    ],
)
def test_impossible_windows_are_rejected(make: Callable[[], object]) -> None:
    with pytest.raises(TopologyError):
        make()


def test_windows_have_a_readable_text() -> None:
    assert str(tumbling(60, grace=0.5)) == "tumbling 60s grace 500ms"
    assert str(hopping(60, every=10)) == "hopping 60s every 10s"
    assert str(sliding(5)) == "sliding 5s"
    assert str(session(30)) == "session gap 30s"
    assert str(within(10)) == "within -10s +10s"
