"""An exactly-once batch write: what identifies it.

    BatchWrite.of("load-2026-11-16")            # option writeId: a rerun under the same id is the same write
    BatchWrite.of(None)                         # no other job will ever know it

A batch job has no checkpoint, so nothing but the user's `writeId` says that two jobs are the same write. With it the
write is batch 0 of a sink of that name, and a rerun takes the steps of a replayed micro-batch. Its transactions have
no time-out if the broker allows that, because a rerun is expected to end them, or an operator (`finishing`). Without it
nobody is: they time out.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from penstock.spark.sink import messages
from penstock.spark.sink.decision import Place

BATCH = 0  # a write has one batch only


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """One job that does a batch write. Every job is a run of its own."""

    sink: str
    run: str
    is_named: bool

    @classmethod
    def of(cls, write_id: str | None) -> BatchWrite:
        name = uuid.uuid4().hex if write_id is None else write_id
        return cls(f"{messages.WRITE}{name}", uuid.uuid4().hex, is_named=write_id is not None)

    def place(self, *, partition: int = 0, attempt: int = 0) -> Place:
        return Place(self.sink, self.run, BATCH, partition, attempt)
