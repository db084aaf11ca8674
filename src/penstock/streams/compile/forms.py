"""Converts the state of a columnar fold into pages of operators, and back.

Which form a table uses depends on the program (`folds.fold_of`): a filter behind a count, or a lambda instead of
`operator.add`, turns columns into pages. A program must not lose its state by such a change, so a bucket in the other
form is converted when it is first touched.

The page `META` of a fold is a tuple, that of operators a dict, or missing.
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
    """Convert columns to this many pages."""
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
    """Convert pages to columns and their meta page; None if there was nothing."""
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
    meta = pickle.dumps((1, len(rows), None))
    pages.write(META, meta)
    return meta


def _page(node: Aggregate, key: Any, page_count: int) -> int:
    """Where operators look for a key: by its own bytes, without its window."""
    serde = placing_serde(node.key)
    assert serde is not None
    (own,) = placing_keys(node.key, [key])
    return place_of(serde.encode(own)) // BUCKETS % page_count
