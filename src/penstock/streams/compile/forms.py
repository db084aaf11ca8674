"""State of a fold in columns, made into pages of operators, and back.

Which of the two a table is kept in depends on what a program asks of it (`folds.fold_of`): a filter behind a count, or
a lambda instead of `operator.add`, makes pages of columns. That must not cost a program its state, so a bucket that is
found in the other form is taken over when it is first touched.

A fold's page `META` is a tuple, that of operators a dict, or missing.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from typing import Any

import pyarrow

from penstock.streams.compile.folds import ROWS, cell_of_rows, rows_of_cell
from penstock.streams.compile.memory import dumped
from penstock.streams.compile.pages import BUCKETS, META, Pages, place_of
from penstock.streams.compile.shuffle import placing_keys, placing_serde
from penstock.streams.topology import Aggregate

Row = tuple[Any, bytes, int]
"""Of a state: key, value, timestamp."""


def is_of_fold(meta: bytes | None) -> bool:
    return meta is not None and isinstance(pickle.loads(meta), tuple)


def to_operators(pages: Pages, meta: bytes, node: Aggregate, page_count: int) -> None:
    """Columns as pages of so many."""
    assert node.key is not None
    assert node.value is not None
    found: dict[int, dict[bytes, Row]] = defaultdict(dict)
    for number in range(pickle.loads(meta)[0]):
        data = pages.read(number)
        pages.write(number, None)
        for batch in () if data is None else rows_of_cell(data):
            for place, partial, at_ms in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                key, value = node.key.decode(place), node.value.encode(partial)
                assert value is not None
                found[_page(node, key, page_count)][place] = (key, value, at_ms)
    pages.write(META, None)
    for number, rows in found.items():
        pages.write(number, dumped((-1, {node.name: {"state": rows}})))


def to_fold(pages: Pages, meta: bytes | None, node: Aggregate, page_count: int) -> bytes | None:
    """Pages as columns; what tells of them, or None where there was nothing."""
    assert node.value is not None
    rows: dict[bytes, Row] = {}
    for number in range(page_count):
        data = pages.read(number)
        if data is not None:
            _, states = pickle.loads(data)
            rows |= states.get(node.name, {}).get("state", {})
            pages.write(number, None)
    if meta is not None:
        pages.write(META, None)
    if not rows:
        return None
    partials = [node.value.decode(value) for _, value, _ in rows.values()]
    times = [at_ms for _, _, at_ms in rows.values()]
    batch = pyarrow.RecordBatch.from_pydict(
        {"key": list(rows), "partial": partials, "at": times}, schema=ROWS
    )
    pages.write(0, cell_of_rows([batch]))
    told = pickle.dumps((1, len(rows), None))
    pages.write(META, told)
    return told


def _page(node: Aggregate, key: Any, page_count: int) -> int:
    """Where operators look for a key: by its own bytes, without its window."""
    serde = placing_serde(node.key)
    assert serde is not None
    (own,) = placing_keys(node.key, [key])
    return place_of(serde.encode(own)) // BUCKETS % page_count
