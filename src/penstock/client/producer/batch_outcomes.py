"""Completes, retries, splits or fails a batch that was taken out of the accumulator. No I/O.

Each outcome is reported to everything that depends on it: sequence numbers, the transaction, the receipts, the last
errors and the metrics. The sender decides the outcome from the responses.

Invariant: every batch that ends leaves the accumulator by `finished`, once.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from penstock.client import errors
from penstock.client.producer.accumulator import Accumulator, Line
from penstock.client.producer.idempotence import Idempotence
from penstock.client.producer.last_errors import LastErrors, with_reason
from penstock.client.producer.sender_state import SendCounts
from penstock.client.producer.transactions import State, Transactions
from penstock.protocol.errors import ErrorCode
from penstock.records.producing import ProducerBatch
from penstock.runtime.backoff import Backoff

logger = logging.getLogger(__name__)


class BatchOutcomes:
    def __init__(
        self,
        accumulator: Accumulator,
        backoff: Backoff,
        counts: SendCounts,
        last_errors: LastErrors,
        *,
        retries: int,
        idempotence: Idempotence | None,
        transactions: Transactions | None,
        on_failure: Callable[[ProducerBatch], None],
    ) -> None:
        self._accumulator = accumulator
        self._backoff = backoff
        self._counts = counts
        self._last_errors = last_errors
        self._retries = retries
        self._idempotence = idempotence
        self._transactions = transactions
        self._on_failure = on_failure
        self.on_refused_epoch: Callable[[], None] | None = None
        """A partition rejects the epoch of this transactional producer, which may be fenced."""
        self.suspects: list[tuple[Line, ProducerBatch, errors.PenstockError]] = []
        """Batches that were rejected because of their epoch. They fail when `epoch_checked` is called."""

    def is_fatal(self) -> bool:
        """Whether the transactional producer cannot continue, as after it was fenced."""
        return self._transactions is not None and self._transactions.state is State.FATAL_ERROR

    def can_retry(self, line: Line, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """After a response with this error."""
        if batch.attempts > self._retries or self.is_fatal():
            return False
        if self._idempotence is None or line.numbering is None:
            return code.is_retriable
        return self._idempotence.can_retry(line.numbering, batch, code, log_start_offset=log_start_offset)

    def can_retry_unanswered(self, batch: ProducerBatch, error: errors.PenstockError) -> bool:
        """After a request that may or may not have arrived."""
        return error.retriable and batch.attempts <= self._retries and not self.is_fatal()

    def complete(self, line: Line, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        if self._idempotence is not None and line.numbering is not None:
            self._idempotence.acknowledged(line.numbering, batch, base_offset)
        if self._transactions is not None:
            self._transactions.written(line.topic, line.partition, base_offset)
        self._last_errors.written(line.topic, line.partition)
        batch.complete(base_offset, append_time_ms)
        self._accumulator.finished(line, batch)

    def retry(self, line: Line, batch: ProducerBatch, error: Exception, now_ms: float) -> None:
        logger.info("retrying a batch to %s-%d: %s", line.topic, line.partition, error)
        self._last_errors.failed(line.topic, line.partition, error)
        wait_ms = math.ceil(self._backoff.wait_ms(batch.attempts))  # the clock has whole milliseconds
        self._accumulator.retry(line, batch, now_ms + wait_ms)
        self._counts.record_retry_total += batch.record_count

    def split(self, line: Line, batch: ProducerBatch) -> None:
        """The broker found the batch too large."""
        parts = batch.split(max(batch.size_bytes // 2, 1))
        self._accumulator.split(line, batch, parts)
        self._counts.batch_split_total += 1

    def fail(
        self,
        line: Line,
        batch: ProducerBatch,
        error: errors.PenstockError,
        record_errors: dict[int, Exception] | None = None,
    ) -> None:
        """The broker rejected the batch."""
        if self._idempotence is not None and line.numbering is not None:
            self._idempotence.failed(line.numbering, batch)
        if self.on_refused_epoch is not None and error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            self.suspects.append((line, batch, error))
            self.on_refused_epoch()
        else:
            self._finish_failed(line, batch, error, record_errors)

    def epoch_checked(self) -> None:
        """The coordinator has said whether this producer is fenced, or did not respond."""
        suspects, self.suspects = self.suspects, []
        for line, batch, error in suspects:
            if not batch.is_done:  # it may have expired
                failure = self._transactions.failure() if self._transactions is not None else None
                self._finish_failed(line, batch, failure if self.is_fatal() and failure else error, None)

    def give_up(self, line: Line, batch: ProducerBatch, error: Exception) -> None:
        """The batch is not sent again, and may have been written."""
        if self._idempotence is not None and line.numbering is not None:
            self._idempotence.given_up(line.numbering, batch)
        self._finish_failed(line, batch, error, None)

    def close(self, line: Line, batch: ProducerBatch) -> None:
        closed = errors.ClientClosed("the producer was closed before the record was sent")
        self.give_up(line, batch, with_reason(closed, self._last_errors.of(line.topic, line.partition)))

    def expire(self, line: Line, batch: ProducerBatch, now_ms: float) -> None:
        """`delivery.timeout.ms` has passed."""
        waited_ms = now_ms - batch.created_ms
        message = f"no acknowledgement within {waited_ms:.0f} ms, after {batch.attempts} attempts"
        late = errors.DeliveryTimedOut(message, about=f"{line.topic}-{line.partition}")
        self.give_up(line, batch, with_reason(late, self._last_errors.of(line.topic, line.partition)))

    def _finish_failed(
        self,
        line: Line,
        batch: ProducerBatch,
        error: Exception,
        record_errors: dict[int, Exception] | None,
    ) -> None:
        is_news = not isinstance(error, errors.TransactionAborted)
        if self._transactions is not None and is_news and self._transactions.failure() is None:
            self._transactions.take_delivery_error(error)
        self._counts.record_error_total += batch.record_count
        batch.fail(error, record_errors)
        self._on_failure(batch)
        self._accumulator.finished(line, batch)
