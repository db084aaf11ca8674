"""Points in time as people type them."""

from __future__ import annotations

import pytest

from penstock.cli.times import parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15m", 2_000_000 - 900_000),
        ("1s", 1_999_000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-02", 86_400_000),
        ("soon", None),
        ("15", None),
        ("15 m", None),
    ],
)
def test_a_time_is_a_moment_or_how_long_ago(text: str, expected: int | None) -> None:
    assert parse_time(text, now_ms=2_000_000) == expected
