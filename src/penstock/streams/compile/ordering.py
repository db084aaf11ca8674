"""The order of output: that of the records that caused it, as if they had been processed one by one.

Operators work on whole columns, and on one page of keys after another, so their output comes in parts, each in order.
Parts for the same topic are merged here by numeric columns that identify the cause of each record. Parts without such
columns, and topics with one part, stay as they are at no cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy
import pyarrow

from penstock.streams.compile.columns import Rows

Cause: TypeAlias = tuple[int, ...]
"""The cause of a record, as numbers; the first decides first."""


class Part(NamedTuple):
    """Records that were written together."""

    topic: str | None
    """None if they may go to several topics."""
    batch: pyarrow.RecordBatch
    order: tuple[Rows, ...]
    """Columns of causes; empty if no order is needed."""


def in_order(parts: list[Part]) -> list[Part]:
    """Merge the parts of one topic in the order of their causes; records of one cause keep their order."""
    topics = [part.topic for part in parts]
    if len(set(topics)) == len(parts) and (None not in topics or len(parts) == 1):
        return parts
    if None in topics:
        return _merged(None, parts)
    groups: dict[str | None, list[Part]] = defaultdict(list)
    for part in parts:
        groups[part.topic].append(part)
    return [part for topic, found in groups.items() for part in _merged(topic, found)]


def stacked(columns: Sequence[tuple[Rows, ...]], counts: Sequence[int]) -> list[Rows]:
    """The causes of several parts with these record counts; shorter ones are padded with zeros."""
    parts = list(zip(columns, counts, strict=True))
    return [
        numpy.concatenate(
            [
                order[level] if level < len(order) else numpy.zeros(count, numpy.int64)
                for order, count in parts
            ]
        )
        for level in range(max(map(len, columns)))
    ]


def turns_of(order: Sequence[Rows]) -> Rows | None:
    """The order of records by their causes; None if they are in order."""
    if not order:
        return None
    turns = numpy.lexsort(order[::-1])  # lexsort sorts by its last column first
    return turns if (turns[1:] < turns[:-1]).any() else None


def _merged(topic: str | None, parts: list[Part]) -> list[Part]:
    order = stacked([part.order for part in parts], [part.batch.num_rows for part in parts])
    turns = turns_of(order)
    if turns is None:
        return parts
    table = pyarrow.Table.from_batches([part.batch for part in parts]).take(pyarrow.array(turns))
    (batch,) = table.combine_chunks().to_batches()
    return [Part(topic, batch, tuple(column[turns] for column in order))]
