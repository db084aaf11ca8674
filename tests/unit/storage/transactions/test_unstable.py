"""Which transactions hold the last stable offset back, and until when."""

from __future__ import annotations

import random

from penstock.storage.transactions.unstable import UnstableTransactions


def test_the_earliest_open_transaction_counts() -> None:
    transactions = UnstableTransactions([(30, 3), (10, 1)])
    transactions.begin(40, 4)
    assert transactions.first_offset() == 10

    assert transactions.end(10, marker_offset=50) == 30, "where the next one begins"
    transactions.advance(51)

    assert transactions.first_offset() == 30


def test_an_ended_transaction_is_unstable_until_its_marker_is_committed() -> None:
    transactions = UnstableTransactions()
    transactions.begin(10, 1)
    assert transactions.end(10, marker_offset=12) == 13

    transactions.advance(12)
    assert transactions.first_offset() == 10
    transactions.advance(13)
    assert transactions.first_offset() is None


def test_a_marker_below_the_known_high_watermark_is_committed_already() -> None:
    transactions = UnstableTransactions([(10, 1)], high_watermark=100)

    transactions.end(10, marker_offset=20)

    assert transactions.first_offset() is None


def test_a_transaction_inside_another_is_not_kept() -> None:
    transactions = UnstableTransactions()
    for first_offset in (0, 1, 2):
        transactions.begin(first_offset, first_offset)
    transactions.end(2, marker_offset=3)
    transactions.end(1, marker_offset=4)
    transactions.end(0, marker_offset=5)

    assert transactions.ended is not None
    assert list(transactions.ended) == [(0, 5)]


def test_it_agrees_with_a_full_search() -> None:
    rng = random.Random(3)
    transactions = UnstableTransactions()
    known: dict[int, int | None] = {}  # first offset: marker
    high_watermark = 0
    for offset in range(2000):
        begun = [first for first, marker in known.items() if marker is None]
        if begun and rng.random() < 0.5:
            first = rng.choice(begun)
            known[first] = offset
            transactions.end(first, marker_offset=offset)
        else:
            known[offset] = None
            transactions.begin(offset, 1)
        if rng.random() < 0.3:
            high_watermark = rng.randint(high_watermark, offset)
            transactions.advance(high_watermark)
        unstable = [first for first, marker in known.items() if marker is None or marker >= high_watermark]
        assert transactions.first_offset() == (min(unstable) if unstable else None)
