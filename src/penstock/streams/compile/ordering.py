"""The order of what is written: that of the records which caused it, as if they had been worked on one by one.

Operators go over whole columns, and over one page of keys after another; so what they write comes as parts, of which
each is in order. Where several go to one topic they are put in order here, by columns of numbers that say what each
record came of. Parts without such numbers, and topics that have one part, stay as they are and cost nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy
import pyarrow

from penstock.streams.compile.columns import Rows

Cause: TypeAlias = tuple[int, ...]
"""What a record came of, as numbers of which the first one decides first."""


class Part(NamedTuple):
    """Records that were written together."""

    topic: str | None
    """None where they may go to several."""
    batch: pyarrow.RecordBatch
    order: tuple[Rows, ...]
    """Columns of their causes; none where nobody asks."""


def in_order(parts: list[Part]) -> list[Part]:
    """Those of one topic in the order of their causes; records of one cause in the order in which they came."""
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
    """Causes of several parts with so many records; where one has fewer numbers, its end with zeros."""
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
    """In which order records stand by their causes; None where they do already."""
    if not order:
        return None
    turns = numpy.lexsort(order[::-1])  # its last column decides first
    return turns if (turns[1:] < turns[:-1]).any() else None


def _merged(topic: str | None, parts: list[Part]) -> list[Part]:
    order = stacked([part.order for part in parts], [part.batch.num_rows for part in parts])
    turns = turns_of(order)
    if turns is None:
        return parts
    table = pyarrow.Table.from_batches([part.batch for part in parts]).take(pyarrow.array(turns))
    (batch,) = table.combine_chunks().to_batches()
    return [Part(topic, batch, tuple(column[turns] for column in order))]
