"""An exactly-once batch write: what identifies it, and how it is finished after its driver died.

    BatchWrite.of("load-2026-11-16")            # option writeId: a rerun under the same id is the same write
    BatchWrite.of(None)                         # no other job will ever know it
    finish_write(options, "load-2026-11-16")    # an operator: its driver is dead and nobody runs it again

A batch job has no checkpoint, so nothing but the user's `writeId` says that two jobs are the same write. With it the
write is batch 0 of a sink of that name, and a rerun takes the steps of a replayed micro-batch. Its transactions have
no time-out if the broker allows that, because a rerun is expected to end them. Without it nobody is: they time out.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.spark.errors import BadOption
from penstock.spark.options import Options, Use, check_mapping
from penstock.spark.sink import PREFIX, messages
from penstock.spark.sink.decision import NOBODY, Place, SinkStopped
from penstock.spark.sink.protocol import finish
from penstock.spark.sink.transactions import connection_of

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


def finish_write(options: Mapping[str, str], write_id: str) -> bool:
    """Finish an exactly-once batch write whose driver died: commit it if that was decided, and roll it back otherwise.
    Returns whether it is committed.

    `options` are the options of the write; `kafka.*` and `transactionalIdPrefix` matter. `write_id` is its `writeId`,
    or what stands between `write:` and the next `-` in the transactional ids of a write without one.

    Safe to repeat. A job that still runs under this id is stopped: call this only if the job is dead.
    """
    check_mapping(options, "options")
    if not isinstance(write_id, str) or not write_id.strip():
        raise BadOption(f"write_id is the writeId of one write, not {write_id!r}")
    read = Options.read(
        {name: said for name, said in options.items() if name.lower() != "writeid"}, Use.BATCH_WRITE
    )
    sink = f"{messages.WRITE}{write_id.strip()}"
    prefix = read.get("transactionalIdPrefix") or PREFIX
    with connection_of(read.settings) as connection:
        ledger = connection.run(lambda admin: finish(admin, sink, prefix=prefix))
    if ledger.holder == NOBODY:
        raise SinkStopped(f"{messages.named(sink)} is unknown: no job with this writeId has written here")
    return ledger.decision is not None
