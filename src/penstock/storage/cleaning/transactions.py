"""Decides what compaction does with transactional batches and markers, as Kafka does.

- Records of aborted transactions are removed.
- A marker stays as long as the log has records of its transaction. After that it gets a delete horizon (KIP-534), and
  is removed when that has passed: consumers that read the transaction's records before still find its end.
- The last batch of an active producer stays, if need be without records, because its sequence number is needed.

One instance sees the batches of one pass in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.records.batch import BatchHeader
from penstock.records.compaction import Decision
from penstock.records.control import read_marker
from penstock.storage.transactions.aborted import AbortedTxn


class LastBatch(NamedTuple):
    """Of an active producer."""

    epoch: int
    data_offset: int | None
    """The last offset of its last data batch; None if its last batch is a marker."""


class TransactionDecisions:
    """What to do with each transactional or control batch: the `decide` of `records.compaction`."""

    def __init__(
        self, aborted: Iterable[AbortedTxn], last_batches: Mapping[int, LastBatch], *, now_ms: int
    ) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        """Aborted transactions that begin after the batches seen so far; the next one is the last."""
        self._last_batches = last_batches
        self._now_ms = now_ms
        self._aborted: dict[int, AbortedTxn] = {}
        """Aborted transactions whose marker has not been seen yet, by producer id."""
        self._removed: set[int] = set()
        """Producers whose aborted records this pass has removed."""
        self._committed: set[int] = set()
        """Producers of which there are records of a committed transaction whose marker has not been seen yet."""
        self.retained_aborted: list[AbortedTxn] = []
        """Transactions whose abort marker stays, for the transaction index."""

    def decide(self, header: BatchHeader, batch: memoryview) -> Decision:
        self._begin_until(header.last_offset)
        if header.is_control:
            return self._decide_marker(header, batch)
        producer_id = header.producer_id
        is_aborted = producer_id in self._aborted
        (self._removed if is_aborted else self._committed).add(producer_id)
        last = self._last_batches.get(producer_id)
        is_last = last is not None and last.data_offset == header.last_offset
        return Decision(discards_records=is_aborted, keeps_empty=is_last, marks_empty_transaction=False)

    def _decide_marker(self, header: BatchHeader, batch: memoryview) -> Decision:
        is_empty = self._ends_empty_transaction(header, batch)
        horizon_ms = header.delete_horizon_ms
        last = self._last_batches.get(header.producer_id)
        return Decision(
            discards_records=is_empty and horizon_ms is not None and horizon_ms <= self._now_ms,
            keeps_empty=last is not None and last.data_offset is None and last.epoch == header.producer_epoch,
            marks_empty_transaction=is_empty,
        )

    def _ends_empty_transaction(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the log had no records of the transaction before this pass."""
        if header.record_count == 0:
            return True
        marker = read_marker(batch, 0)
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.is_commit:
            was_seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_seen
        entry = self._aborted.pop(producer_id, None)
        was_removed = producer_id in self._removed
        self._removed.discard(producer_id)
        if entry is None or not was_removed:
            return True
        self.retained_aborted.append(entry)
        return False

    def take_retained_aborted(self) -> list[AbortedTxn]:
        """Those of the segment that was just written."""
        taken, self.retained_aborted = self.retained_aborted, []
        return taken

    def _begin_until(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            entry = self._waiting.pop()
            self._aborted.setdefault(entry.producer_id, entry)
