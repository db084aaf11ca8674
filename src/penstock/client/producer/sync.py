"""The producer for programs without asyncio.

`send` is compiled and runs in the caller's thread: it adds the record to a batch and returns a receipt. The client's
own thread sends batches and reads responses. Both need the interpreter lock, which a busy thread releases only every 5
ms, so a caller that fills batches without pause would starve the sending thread; it therefore waits for a moment each
time a batch is full (`_Host.filled`; bench "clients").

It is thread-safe. After a fork every call raises `UsedAfterFork`.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from penstock.client import errors
from penstock.client.background import Background
from penstock.client.cluster import PartitionInfo
from penstock.client.deadlines import seconds
from penstock.client.group.types import GroupMetadata
from penstock.client.options import ProducerOptions
from penstock.client.prepared_transaction import PreparedTransaction
from penstock.client.producer.core import ProducerCore
from penstock.client.producer.interceptors import OutgoingRecord
from penstock.client.producer.last_errors import with_reason
from penstock.client.producer.offsets import Consumed, offsets_and_group
from penstock.client.producer.rows import RowSending, RowsReceipt
from penstock.client.producer.transaction_consumer import (
    RewindableConsumer,
    TransactionConsumer,
    check_consumer,
)
from penstock.client.settings import First, ProducerSettings
from penstock.records.producing import ProducerBatch, Receipt, Sending

if TYPE_CHECKING:
    from penstock.client.producer.arrow_rows import AnyTable

T = TypeVar("T")

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 60.0
EXIT_TIMEOUT_S = 30.0
HANDOVER_S = 0.005  # as long as the interpreter would let the other thread wait anyway


class _Host:
    """The callbacks of the intake, in the thread that sends."""

    def __init__(self, settings: ProducerSettings) -> None:
        self.background = Background("penstock-producer")
        self.core = ProducerCore(settings, self)
        self._turn = threading.Event()
        self._is_pump_due = False
        self.choose = self.core.choose
        self.serialization_failed = self.core.serialization_failed

    def opened(self) -> None:
        if not self._is_pump_due:
            self._is_pump_due = True
            self.background.post(self._pump)

    def filled(self) -> None:
        self._turn.clear()
        self.opened()
        if not self.background.is_own_thread:  # as in a callback that sends
            self._turn.wait(HANDOVER_S)

    def _pump(self) -> None:
        self._is_pump_due = False
        if not self.core.is_started:
            self.core.start()
        self.core.sender.pump()
        self._turn.set()

    def send_otherwise(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> Receipt:
        core = self.core
        core.check_send()
        record = core.intercept(OutgoingRecord(topic, value, key, headers, partition, timestamp_ms))
        until = time.monotonic() + core.max_block_ms / 1000
        while (prepared := core.prepare(record)) is None:
            self.call(partial(core.load_topic, record.topic), until)
        size = prepared.size_bytes_max
        while (receipt := core.append(prepared)) is None:
            self.call(partial(core.wait_for_room, size), until)
            core.check_send()
        core.check_open()  # closed meanwhile: it is unknown whether the record was sent
        return receipt

    def wait_for(self, batch: ProducerBatch, timeout: float | None) -> None:
        if self.background.is_own_thread:
            raise errors.IllegalState(
                "a callback must not wait for a receipt: it runs on the thread that completes receipts"
            )
        if isinstance(self.core.refusal, errors.UsedAfterFork):
            self.core.check_open()  # only the parent process gets the outcome
        if not batch.wait_for_change(None if timeout is None else seconds(timeout)):
            late = errors.TimedOut(f"the record was not acknowledged within {timeout} s")
            last_error = self.core.sender.last_errors.of(batch.topic, batch.partition)
            with_reason(late, last_error)
            raise late from late.__cause__

    @property
    def is_used(self) -> bool:
        """Whether there is something to close."""
        return self.core.refusal is None and self.core.is_started

    def close(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        _OPEN.discard(self)
        try:
            self.call(self.core.close, until)
        except errors.UsedAfterFork:
            pass  # everything stayed in the parent process
        finally:
            self.background.close()

    def close_quietly(self) -> None:
        try:
            self.close(EXIT_TIMEOUT_S)
        except errors.PenstockError as error:
            logger.error("a producer was not closed, and its records were not written: %s", error)

    def call(self, make: Callable[..., Coroutine[Any, Any, T]], until: float) -> T:
        """Run `make(deadline_ms=...)` on the client's thread; `until` is a time of the caller's clock."""
        left_ms = max(0.0, until - time.monotonic()) * 1000

        async def run() -> T:
            return await make(deadline_ms=self.core.client.deadline(round(left_ms)))

        return self.background.call(run)


class Producer(Sending):
    """Sends records to topics. Threads may share one.

        with Producer("localhost:9092", serializer="json") as producer:
            receipt = producer.send("orders", {"id": 1}, key="alice")

    The first argument is `bootstrap.servers`, or a mapping of all settings. Settings have Kafka's names: with
    underscores as keywords, with dots in `settings`.
    """

    _is_closed = True  # until there is something to close

    def __init__(
        self,
        bootstrap_servers: First = None,
        /,
        *,
        settings: Mapping[str, object] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        taken = ProducerSettings.of(bootstrap_servers, settings, options)
        self._host = _Host(taken)
        self._core = self._host.core
        self._begin_sending(self._core.intake)
        self._transaction_consumer = TransactionConsumer(self._core.transactions)
        self._is_closed = False
        _OPEN.add(self._host)

    @property
    def settings(self) -> ProducerSettings:
        return self._core.settings

    def __repr__(self) -> str:
        return f"<Producer at {self.settings.cluster_name}{', closed' if self._is_closed else ''}>"

    def metrics(self) -> dict[str, int]:
        """Counters, and the state of the buffer, by Kafka's names."""
        return self._core.metrics()

    def send_arrow(self, table: AnyTable, *, topic: str | None = None) -> RowsReceipt:
        """Send the rows of a pyarrow Table or RecordBatch, without Python per row. Returns one receipt for all rows.

            receipt = producer.send_arrow(table, topic="orders")

        Columns: `value`, and optionally `key`, `headers`, `topic`, `partition`, `timestamp`. Bytes and text are sent
        without serializers; the argument `topic` overrides the column. Waits up to `max.block.ms` each time the buffer
        is full. If a row is invalid, the error names it and no row is sent. Tables of pandas, polars and other
        libraries with the Arrow interface are accepted too.
        """
        core = self._core
        core.check_send()
        sending = RowSending(core, table, topic)
        for name in sending.unknown_topics():
            self._blocking(partial(core.load_topic, name))
        while (wanted := sending.advance()) is not None:
            self._blocking(partial(core.wait_for_room, wanted))
        core.check_open()  # closed meanwhile: it is unknown whether all rows were sent
        return sending.receipt

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far is written or has failed. Raises the first failure whose receipt was not
        used; `TimedOut` after `timeout` seconds."""
        self._core.check_open()
        until = None if timeout is None else time.monotonic() + seconds(timeout)
        core = self._core
        if until is None:
            self._host.background.call(lambda: core.flush(deadline_ms=None))
        else:
            self._host.call(core.flush, until)

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with their leaders."""
        return self._blocking(partial(self._core.partitions_for, topic))

    def begin(self) -> None:
        """Begin a transaction. The first one takes over the `transactional.id` and fences its earlier producer."""
        self._blocking(self._core.begin)

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take over the `transactional.id`, as the first `begin` does by itself.

        An open transaction of the earlier producer is aborted. With `keep_prepared` (KIP-939) a prepared one stays open
        and is returned; it can only be ended. It may be called again after `prepare_transaction`, when another process
        has ended that transaction.
        """
        return self._blocking(partial(self._core.init_transactions, keep_prepared=keep_prepared))

    def prepare_transaction(self) -> PreparedTransaction:
        """Write and flush everything, and leave the transaction open (KIP-939).

        After this it can only be ended: by `commit`, `abort` or `complete_transaction` here, or by
        `Admin.complete_transaction` in any process, also after this producer is closed.
        """
        return self._blocking(self._core.prepare_transaction)

    def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the prepared transaction if it is this one, else abort it (KIP-939). True if it was committed."""
        return self._blocking(partial(self._core.complete_transaction, prepared))

    def commit(self) -> None:
        """Commit the transaction: read_committed consumers see its records, and its offsets are committed."""
        self._blocking(self._core.commit)
        self._transaction_consumer.committed()

    def abort(self) -> None:
        """Abort the transaction: read_committed consumers never see its records."""
        self._abort()
        self._transaction_consumer.aborted()

    def _abort(self) -> None:
        self._blocking(self._core.abort)

    def send_offsets(
        self,
        consumer_or_offsets: Consumed,
        group: GroupMetadata | str | None = None,
    ) -> None:
        """Commit offsets with the transaction: those of a consumer, or a mapping for a group."""
        offsets, metadata = offsets_and_group(consumer_or_offsets, group)
        self._blocking(partial(self._core.send_offsets, offsets, metadata))

    @contextlib.contextmanager
    def transaction(self, *, consumer: RewindableConsumer | None = None) -> Iterator[Transaction]:
        """A transaction that is committed at the end of the block, and aborted if the block raises.

            with producer.transaction(consumer=consumer):
                for message in consumer.poll():
                    producer.send("results", handle(message))

        With a `consumer`, the offsets of its returned messages are committed with the transaction. After an abort the
        consumer is rewound, so that it returns the same messages again. It needs `enable_auto_commit=False`.

        If the commit times out, is cancelled or interrupted, the transaction may have been committed: call `commit()`
        to learn the outcome. Until then the consumer is not rewound.
        """
        check_consumer(consumer)
        steps = self._transaction_consumer
        with steps.beginning(consumer):
            self.begin()
        try:
            yield Transaction(self)
            if (offsets := steps.offsets()) is not None:
                self.send_offsets(*offsets)
            steps.committing()
            self.commit()
        except BaseException as error:
            if steps.must_abort(error):
                with steps.aborting():
                    self._abort()
            raise

    def close(self, timeout: float | None = None) -> None:
        """Send all records and close, within `timeout` seconds (60 by default). Raises the first failure whose receipt
        was not used."""
        timeout_s = CLOSE_TIMEOUT_S if timeout is None else seconds(timeout)
        if self._is_closed:
            return
        if self._host.background.is_own_thread:
            raise errors.IllegalState(
                "a producer cannot be closed by its own callback: closing waits for callbacks;"
                " close it in the thread that uses it"
            )
        self._is_closed = True
        self._host.close(timeout_s)

    def __enter__(self) -> Self:
        self._core.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(errors.PenstockError):  # the exception of the block is more important
                self.close()

    def __del__(self) -> None:
        """A producer that is garbage collected without `close` leaves a thread and perhaps records: both are ended."""
        if self._is_closed:
            return
        if not self._host.is_used:
            _OPEN.discard(self._host)
            return
        warnings.warn("a producer was garbage collected without being closed", ResourceWarning, stacklevel=1)
        threading.Thread(target=self._host.close_quietly, name="penstock-producer-closing").start()

    def _blocking(self, make: Callable[..., Coroutine[Any, Any, T]]) -> T:
        self._core.check_open()
        return self._host.call(make, time.monotonic() + self._core.max_block_ms / 1000)


class Transaction:
    """The calls inside a transaction, in addition to `Producer.send`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def send_offsets(self, consumer_or_offsets: Consumed, group: GroupMetadata | str | None = None) -> None:
        """See `Producer.send_offsets`."""
        self._producer.send_offsets(consumer_or_offsets, group)


_OPEN: set[_Host] = set()
"""Hosts of producers that are not closed. They are kept alive here: if a producer and its host were collected together,
the thread would end before the producer could be closed on it."""

# Exit handlers run in reverse order. Producers need their threads, which a finalizer of `background` ends, so the first
# finalizer, which registers the exit handler of all finalizers, must be created before.
weakref.finalize(Producer, int).atexit = False


@atexit.register
def _close_all() -> None:
    """If the program ends without closing its producers, their records are still sent."""
    for host in list(_OPEN):
        if not host.is_used:
            continue
        try:
            host.close(EXIT_TIMEOUT_S)
        except errors.PenstockError as error:
            logger.error("records were not written when the program ended: %s", error)
