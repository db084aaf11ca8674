"""Waits between retries grow, are bounded, and differ between clients."""

from __future__ import annotations

import random

import pytest

from penstock.runtime.backoff import Backoff


def test_there_is_no_wait_before_the_first_failure() -> None:
    assert Backoff(100, 1000, jitter=0).wait_ms(0) == 0


@pytest.mark.parametrize(
    ("failures", "wait_ms"), [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (99, 1000)]
)
def test_waits_double_up_to_the_limit(failures: int, wait_ms: int) -> None:
    assert Backoff(100, 1000, draw=lambda: 0.5).wait_ms(failures) == wait_ms


@pytest.mark.parametrize(("draw", "wait_ms"), [(0.0, 80), (0.5, 100), (1.0, 120)])
def test_jitter_changes_a_wait_by_up_to_a_fifth(draw: float, wait_ms: int) -> None:
    assert Backoff(100, 1000, draw=lambda: draw).wait_ms(1) == pytest.approx(wait_ms)


def test_jitter_never_exceeds_the_limit() -> None:
    backoff = Backoff(100, 1000, draw=random.Random(1).random)
    assert all(backoff.wait_ms(10) <= 1000 for _ in range(100))


def test_a_first_wait_above_the_limit_is_cut_to_it() -> None:
    assert Backoff(5000, 1000, draw=lambda: 0.5).wait_ms(1) == 1000


def test_days_of_failures_do_not_overflow() -> None:
    assert Backoff(50, 1000, draw=lambda: 0.5).wait_ms(1_000_000) == 1000


def test_without_jitter_waits_are_exact() -> None:
    backoff = Backoff(1_000, 60_000, jitter=0)
    assert [backoff.wait_ms(failures) for failures in (1, 2, 3, 6, 7)] == [
        1_000,
        2_000,
        4_000,
        32_000,
        60_000,
    ]
