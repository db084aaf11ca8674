"""Identifies an exactly-once batch write.

    BatchWrite.of("load-2026-11-16")            # option writeId: a rerun with the same id is the same write
    BatchWrite.of(None)                         # a write that no other job can finish

A batch job has no checkpoint, so only the user's `writeId` tells that two jobs are the same write. With it, the
write is batch 0 of a sink of that name, and a rerun takes the steps of a replayed micro-batch. Its transactions have
no timeout if the broker allows that, because a rerun or an operator (`finishing`) will end them. Without a `writeId`
they time out, because no one else can end them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from penstock.spark.sink import messages
from penstock.spark.sink.decision import TaskAttempt

BATCH = 0  # a write has one batch only


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """One job of a batch write. Every job is a separate run."""

    sink: str
    run: str
    is_named: bool

    @classmethod
    def of(cls, write_id: str | None) -> BatchWrite:
        name = uuid.uuid4().hex if write_id is None else write_id
        return cls(f"{messages.WRITE}{name}", uuid.uuid4().hex, is_named=write_id is not None)

    def task_attempt(self, *, partition: int = 0, attempt: int = 0) -> TaskAttempt:
        return TaskAttempt(self.sink, self.run, BATCH, partition, attempt)
