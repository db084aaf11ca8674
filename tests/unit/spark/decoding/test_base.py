"""Functions that all decoders share."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.decoding.base import Bad, Decoded, by_halves


class Reading:
    """Numbers as text; reads at once only if all are numbers."""

    def __init__(self) -> None:
        self.rows_alone = 0
        self.attempts = 0

    def at_once(self, part: pa.Array) -> pa.Array | None:
        self.attempts += 1
        if any(not value.isdigit() for value in part.to_pylist()):
            return None
        return pa.array([int(value) for value in part.to_pylist()], pa.int64())

    def by_rows(self, part: pa.Array) -> Decoded:
        self.rows_alone += len(part)
        values = [int(value) if value.isdigit() else None for value in part.to_pylist()]
        bad = [Bad(row, "no number") for row, value in enumerate(values) if value is None]
        return Decoded(pa.array(values, pa.int64()), bad)


@settings(deadline=None)
@given(st.integers(0, 700), st.sets(st.integers(0, 699), max_size=40))
def test_halves_are_joined_in_order(rows: int, odd: set[int]) -> None:
    column = pa.array([b"x" if row in odd else b"%d" % row for row in range(rows)], pa.binary())

    decoded = by_halves(column, Reading().at_once, Reading().by_rows)

    assert decoded.values.to_pylist() == [None if row in odd else row for row in range(rows)]
    assert [bad.row for bad in decoded.bad] == sorted(row for row in odd if row < rows)


def test_a_bad_row_slows_down_its_neighbours_and_not_the_batch() -> None:
    reading = Reading()

    by_halves(pa.array([b"1"] * 9_000 + [b"x"] + [b"1"] * 999, pa.binary()), reading.at_once, reading.by_rows)

    assert reading.rows_alone <= 64


def test_reading_at_once_is_given_up_if_most_parts_fail() -> None:
    reading = Reading()

    by_halves(pa.array([b"x"] * 20_000, pa.binary()), reading.at_once, reading.by_rows)

    assert reading.rows_alone == 20_000
    assert reading.attempts <= 64
