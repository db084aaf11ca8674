"""Durations as ISO 8601 writes them."""

from __future__ import annotations

import pytest

from penstock.config.durations import is_by_duration, is_duration, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("pt1h30m", 5_400_000),
        ("P2D", 172_800_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT0.001S", 1),
        ("PT0.0009S", 0),
        ("PT1.S", 1000),
        ("PT0S", 0),
        ("P99999999999999999999D", 2**63 - 1),
    ],
)
def test_a_duration_is_read_as_milliseconds(text: str, ms: int) -> None:
    assert is_duration(text)
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "PT1", "P1H", "-PT1H", "PT1S1M", "P" + "9" * 70 + "D"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


def test_an_offset_reset_by_duration_has_a_prefix() -> None:
    assert is_by_duration("by_duration:PT1H")
    assert not is_by_duration("PT1H")
    assert not is_by_duration("by_duration:")
