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
    """Parts of one topic as one, in the order of their causes; those of one cause in the order in which they came."""
    topics = [part.topic for part in parts]
    if len(set(topics)) == len(parts) and (None not in topics or len(parts) == 1):
        return parts
    if None in topics:
        return [_merged(None, parts)]
    groups: dict[str | None, list[Part]] = defaultdict(list)
    for part in parts:
        groups[part.topic].append(part)
    return [found[0] if len(found) == 1 else _merged(topic, found) for topic, found in groups.items()]


def _merged(topic: str | None, parts: Sequence[Part]) -> Part:
    table = pyarrow.Table.from_batches([part.batch for part in parts])
    order = _stacked(parts)
    turns = numpy.lexsort(order[::-1]) if order else None
    if turns is not None and (turns[1:] < turns[:-1]).any():
        table = table.take(pyarrow.array(turns))
        order = tuple(column[turns] for column in order)
    (batch,) = table.combine_chunks().to_batches()
    return Part(topic, batch, order)


def _stacked(parts: Sequence[Part]) -> tuple[Rows, ...]:
    """Causes of all of them; where some have fewer numbers, theirs end with zeros."""
    depth = max(len(part.order) for part in parts)
    return tuple(
        numpy.concatenate(
            [
                part.order[level]
                if level < len(part.order)
                else numpy.zeros(part.batch.num_rows, numpy.int64)
                for part in parts
            ]
        )
        for level in range(depth)
    )
