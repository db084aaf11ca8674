"""Folds of columns compared with folds of dicts."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.streams.compile import folds
from penstock.streams.compile.columns import Columns
from penstock.streams.compile.folds import (
    FoldBucket,
    cell_of_rows,
    fold_records,
    rows_of_cell,
    split_by_bucket,
)
from penstock.streams.compile.pages import META, MemoryPages

COMBINE: dict[str, Any] = {"count": None, "sum": lambda a, b: a + b, "min": min, "max": max}


def columns(pairs: list[tuple[bytes | None, int | None, int]]) -> tuple[pyarrow.Array, Columns]:
    keys, values, times = zip(*pairs, strict=True)
    rows = numpy.arange(len(pairs))
    column = pyarrow.array(keys, pyarrow.binary())
    return column, Columns(column, pyarrow.array(values, pyarrow.int64()), rows, numpy.array(times), None)


@pytest.mark.parametrize("fold", COMBINE)
def test_a_bucket_equals_a_dict(fold: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "KEYS_PER_PAGE", 4)  # so that pages grow
    chance = random.Random(3)
    pages = MemoryPages()
    model: dict[bytes, tuple[int, int]] = {}
    seen: dict[bytes, tuple[int, int]] = {}
    for _ in range(20):
        pairs = [
            (str(chance.randint(0, 60)).encode(), chance.randint(-9, 9), chance.randint(0, 99))
            for _ in range(15)
        ]
        changed: set[bytes] = set()
        for key, value, time_ms in pairs:
            changed.add(key)
            before = model.get(key)
            if fold == "count":
                number = 1 if before is None else before[0] + 1
            else:
                number = value if before is None else COMBINE[fold](before[0], value)
            model[key] = number, max(time_ms, -1 if before is None else before[1])

        given = [fold_records(fold, *columns(part)) for part in (pairs[:7], pairs[7:])]
        found = FoldBucket(fold, pages).update(given)

        rows = [row for batch in found for row in batch.to_pylist()]
        assert {row["key"] for row in rows} == changed
        assert len(rows) == len(changed)
        seen |= {row["key"]: (row["partial"], row["at"]) for row in rows}
        assert seen == model
    assert len(pages.pages) > 8
    assert META in pages.pages


def test_records_without_key_or_value_do_not_count() -> None:
    rows = fold_records("count", *columns([(b"a", 1, 5), (None, 1, 6), (b"a", None, 7), (b"b", 1, 8)]))

    assert rows.to_pylist() == [
        {"key": b"a", "partial": 1, "at": 5},
        {"key": b"b", "partial": 1, "at": 8},
    ]


def test_rows_are_split_by_bucket_and_packed_into_cells() -> None:
    whole = fold_records("count", *columns([(str(number).encode(), 1, number) for number in range(200)]))

    parts = dict(split_by_bucket(whole))

    assert len(parts) > 10
    together = [
        row
        for part in parts.values()
        for cell in rows_of_cell(cell_of_rows([part]))
        for row in cell.to_pylist()
    ]
    assert sorted(together, key=repr) == sorted(whole.to_pylist(), key=repr)
