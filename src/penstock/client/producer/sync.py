"""The producer for programs without asyncio.

`send` is compiled and runs in the caller's thread: it takes the record in and gives a receipt. A thread of the client's
own sends batches and hears answers. Both need the interpreter's lock, and a thread that computes gives it up only every
5 ms, so a caller that fills batches without pause would starve the one that sends them; it therefore stands back for a
moment each time a batch is full (`_Host.filled`; bench "clients").

Safe for many threads. After a fork it refuses to be used.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from penstock.client import errors
from penstock.client.background import Background
from penstock.client.cluster import PartitionInfo
from penstock.client.deadlines import seconds
from penstock.client.group.nouns import GroupMetadata
from penstock.client.options import ProducerOptions
from penstock.client.producer.core import ProducerCore
from penstock.client.producer.interceptors import OutgoingRecord
from penstock.client.producer.last_errors import with_reason
from penstock.client.producer.offsets import Consumed, offsets_and_group
from penstock.client.producer.prepared import PreparedTransaction
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

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 60.0
EXIT_TIMEOUT_S = 30.0
HANDOVER_S = 0.005  # as long as the interpreter would let the other thread wait anyway


class _Host:
    """What the intake needs, in the thread that sends."""

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
            self.call(lambda deadline_ms: core.make_known(record.topic, deadline_ms=deadline_ms), until)
        size = prepared.size_bytes_max
        while (receipt := core.append(prepared)) is None:
            self.call(lambda deadline_ms: core.wait_for_room(size, deadline_ms=deadline_ms), until)
            core.check_send()
        core.check_open()  # closed meanwhile: whether it was still sent is not known
        return receipt

    def wait_for(self, batch: ProducerBatch, timeout: float | None) -> None:
        if self.background.is_own_thread:
            raise errors.IllegalState(
                "a callback may not wait for a receipt: the thread that it runs on delivers it"
            )
        if isinstance(self.core.refusal, errors.UsedAfterFork):
            self.core.check_open()  # only the parent will hear what became of it
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
            self.call(lambda deadline_ms: self.core.close(deadline_ms=deadline_ms), until)
        except errors.UsedAfterFork:
            pass  # everything stayed with the parent
        finally:
            self.background.close()

    def close_quietly(self) -> None:
        try:
            self.close(EXIT_TIMEOUT_S)
        except errors.PenstockError as error:
            logger.error("records of a producer that was not closed were not written: %s", error)

    def call(self, make: Any, until: float) -> Any:
        """Run `make(deadline_ms)` on the client's thread, until the moment that the caller's clock has named."""
        left_ms = max(0.0, until - time.monotonic()) * 1000

        async def run() -> Any:
            return await make(self.core.client.deadline(round(left_ms)))

        return self.background.call(run)


class Producer(Sending):
    """Sends records to topics.

        with Producer("localhost:9092", serializer="json") as producer:
            receipt = producer.send("orders", {"id": 1}, key="alice")

    The first argument is where the cluster is found, or a mapping of all settings. Settings have Kafka's names, with
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
        """Counts of what was done so far, and the state of the buffer, by Kafka's names."""
        return self._core.metrics()

    def send_arrow(self, table: AnyTable, *, topic: str | None = None) -> RowsReceipt:
        """Send the rows of a Table or RecordBatch of pyarrow, with no Python for a row; one receipt for all of them.

        Columns: `value`, and where there are `key`, `headers`, `topic`, `partition`, `timestamp`. Bytes and text are
        sent as they are, without serializers; `topic` goes before the column. Waits while the buffer is full, for
        `max.block.ms` each time. A row that cannot be sent is named, and then none is. Tables of pandas, polars and
        others that give their columns away as Arrow's are taken too.
        """
        core = self._core
        core.check_send()
        sending = RowSending(core, table, topic)
        for name in sending.unknown_topics():
            self._blocking(lambda deadline_ms, name=name: core.make_known(name, deadline_ms=deadline_ms))
        while (wanted := sending.advance()) is not None:
            self._blocking(lambda deadline_ms, size=wanted: core.wait_for_room(size, deadline_ms=deadline_ms))
        core.check_open()  # closed meanwhile: whether all was still sent is not known
        return sending.receipt

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is written or has failed; raises the first failure whose receipt nobody
        asked. `timeout` is in seconds; TimedOut when it passes."""
        self._core.check_open()
        until = None if timeout is None else time.monotonic() + seconds(timeout)
        core = self._core
        if until is None:
            self._host.background.call(lambda: core.flush(deadline_ms=None))
        else:
            self._host.call(lambda deadline_ms: core.flush(deadline_ms=deadline_ms), until)

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic and who leads them."""
        return self._blocking(lambda deadline_ms: self._core.partitions_for(topic, deadline_ms=deadline_ms))  # type: ignore[no-any-return]

    def begin(self) -> None:
        """Begin a transaction. The first one takes the `transactional.id` over from whoever had it."""
        self._blocking(lambda deadline_ms: self._core.begin(deadline_ms=deadline_ms))

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the `transactional.id` over from whoever had it, as the first `begin` does by itself.

        What was left open is aborted; with `keep_prepared` (KIP-939) it stays, is returned, and can only be ended. May
        be called again after `prepare_transaction`, when somebody else has ended that one.
        """
        return self._blocking(  # type: ignore[no-any-return]
            lambda deadline_ms: self._core.init_transactions(
                keep_prepared=keep_prepared, deadline_ms=deadline_ms
            )
        )

    def prepare_transaction(self) -> PreparedTransaction:
        """Have everything written, and leave the transaction open.

        From now on it can only be ended: by `commit`, `abort` or `complete_transaction` here, or by
        `Admin.complete_transaction` anywhere, also after this producer is closed.
        """
        return self._blocking(lambda deadline_ms: self._core.prepare_transaction(deadline_ms=deadline_ms))  # type: ignore[no-any-return]

    def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the prepared transaction if it is this one, else abort it (KIP-939). True where it was committed."""
        return self._blocking(  # type: ignore[no-any-return]
            lambda deadline_ms: self._core.complete_transaction(prepared, deadline_ms=deadline_ms)
        )

    def commit(self) -> None:
        """Commit the transaction: its records become visible to readers of committed ones, and its offsets count."""
        self._blocking(lambda deadline_ms: self._core.commit(deadline_ms=deadline_ms))
        self._transaction_consumer.committed()

    def abort(self) -> None:
        """Abort the transaction: none of its records will be seen by readers of committed ones."""
        self._abort()
        self._transaction_consumer.aborted()

    def _abort(self) -> None:
        self._blocking(lambda deadline_ms: self._core.abort(deadline_ms=deadline_ms))

    def send_offsets(
        self,
        consumer_or_offsets: Consumed,
        group: GroupMetadata | str | None = None,
    ) -> None:
        """Have the offsets of a consumer, or of a mapping and a group, committed with the transaction."""
        offsets, metadata = offsets_and_group(consumer_or_offsets, group)
        self._blocking(
            lambda deadline_ms: self._core.send_offsets(offsets, metadata, deadline_ms=deadline_ms)
        )

    @contextlib.contextmanager
    def transaction(self, *, consumer: RewindableConsumer | None = None) -> Iterator[Transaction]:
        """A transaction that is committed at the end of the block, and aborted if the block raises.

        With a `consumer`, the offsets of what it has been given are committed with the transaction. After an abort the
        consumer is rewound, so that it gives the same messages again. It needs `enable_auto_commit=False`.

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
        """Send what there is, for `timeout` seconds (a minute) at most, and end. Raises the first failure nobody
        asked for."""
        timeout_s = CLOSE_TIMEOUT_S if timeout is None else seconds(timeout)
        if self._is_closed:
            return
        if self._host.background.is_own_thread:
            raise errors.IllegalState(
                "a producer cannot be closed by a callback of its own, for which closing would wait;"
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
            with contextlib.suppress(errors.PenstockError):  # what went wrong inside is what counts
                self.close()

    def __del__(self) -> None:
        """A producer that is collected without being closed leaves a thread and perhaps records: both are ended."""
        if self._is_closed:
            return
        if not self._host.is_used:
            _OPEN.discard(self._host)
            return
        warnings.warn("a producer was garbage collected without being closed", ResourceWarning, stacklevel=1)
        threading.Thread(target=self._host.close_quietly, name="penstock-producer-closing").start()

    def _blocking(self, make: Any) -> Any:
        self._core.check_open()
        return self._host.call(make, time.monotonic() + self._core.max_block_ms / 1000)


class Transaction:
    """What can be done in a transaction besides sending."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def send_offsets(self, consumer_or_offsets: Consumed, group: GroupMetadata | str | None = None) -> None:
        """See `Producer.send_offsets`."""
        self._producer.send_offsets(consumer_or_offsets, group)


_OPEN: set[_Host] = set()
"""Hosts of producers that are not closed. They are held here: if a producer and its host were collected together, the
thread would end before the producer could be closed on it."""

# What is registered last runs first at the end of a program, and producers need their threads, which a finalizer of
# `background` ends: so the first finalizer of all, with which finalizers are registered, must be made before.
weakref.finalize(Producer, int).atexit = False


@atexit.register
def _close_all() -> None:
    """A program that ends without closing its producers still gets its records sent."""
    for host in list(_OPEN):
        if not host.is_used:
            continue
        try:
            host.close(EXIT_TIMEOUT_S)
        except errors.PenstockError as error:
            logger.error("records were not written when the program ended: %s", error)
