"""The asyncio producer. It runs on the application's event loop.

`await producer.send(...)` adds the record to a batch and returns a receipt; `await receipt` waits until it is written.
`send` waits only for the metadata of a new topic, for buffer space, and now and then for one loop iteration: a task
that only sends would otherwise keep batches from being sent.

Invariant: after `close` there is no task, no timer and no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from penstock.client import errors
from penstock.client.cluster import PartitionInfo
from penstock.client.deadlines import milliseconds
from penstock.client.group.types import GroupMetadata
from penstock.client.options import ProducerOptions
from penstock.client.prepared_transaction import PreparedTransaction
from penstock.client.producer.core import ProducerCore
from penstock.client.producer.interceptors import OutgoingRecord
from penstock.client.producer.offsets import Consumed, offsets_and_group
from penstock.client.producer.rows import RowSending, RowsReceipt
from penstock.client.producer.transaction_consumer import (
    RewindableConsumer,
    TransactionConsumer,
    check_consumer,
)
from penstock.client.producer.unclosed import Guard
from penstock.client.settings import First, ProducerSettings
from penstock.records.delivery import AnyHeaders
from penstock.records.producing import ProducerBatch, Receipt
from penstock.runtime.clock import Clock
from penstock.runtime.network import Network

if TYPE_CHECKING:
    from penstock.client.producer.arrow_rows import AnyTable

CLOSE_TIMEOUT_S = 60.0


class _MustWait(Exception):
    """The compiled path cannot take the record; the arguments are its fields."""


class _Host:
    """The callbacks of the intake, on the loop."""

    def __init__(
        self,
        settings: ProducerSettings,
        network: Network | None,
        clock: Clock | None,
        rng: random.Random | None,
    ) -> None:
        self.core = ProducerCore(settings, self, network=network, clock=clock, rng=rng)
        self.choose = self.core.choose
        self.serialization_failed = self.core.serialization_failed
        self.is_turn_due = False
        self._is_pump_due = False

    def opened(self) -> None:
        loop = self.core.check_loop()
        if not self._is_pump_due:
            self._is_pump_due = True
            loop.call_soon(self._pump)

    def filled(self) -> None:
        self.is_turn_due = True
        self.opened()

    def _pump(self) -> None:
        self._is_pump_due = False
        if not self.core.is_started:
            self.core.start()
        self.core.sender.pump()

    def send_otherwise(self, *arguments: Any) -> Receipt:
        raise _MustWait(*arguments)

    def wait_for(self, batch: ProducerBatch, timeout: float | None) -> None:
        raise errors.IllegalState("the receipt of an async producer must be awaited: `await receipt`")


class Producer:
    """Sends records to topics.

        async with Producer("localhost:9092", serializer="json") as producer:
            receipt = await producer.send("orders", {"id": 1}, key="alice")
            delivery = await receipt

    The first argument is `bootstrap.servers`, or a mapping of all settings. Settings have Kafka's names: with
    underscores as keywords, with dots in `settings`. `network` and `clock` are for simulations.
    """

    def __init__(
        self,
        bootstrap_servers: First = None,
        /,
        *,
        settings: Mapping[str, object] | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        taken = ProducerSettings.of(bootstrap_servers, settings, options)
        self._host = _Host(taken, network, clock, rng)
        self._core = self._host.core
        self._intake = self._core.intake
        self._guard = Guard(self._core)
        self._transaction_consumer = TransactionConsumer(self._core.transactions)
        self._is_closed = False

    @property
    def settings(self) -> ProducerSettings:
        return self._core.settings

    def __repr__(self) -> str:
        return f"<Producer at {self.settings.cluster_name}{', closed' if self._is_closed else ''}>"

    def metrics(self) -> dict[str, int]:
        """Counters, and the state of the buffer, by Kafka's names."""
        return self._core.metrics()

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: AnyHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Add a record to a batch. Await the receipt to wait until the record is written.

        The producer's serializers convert key and value to bytes; without one they must be bytes or str. Records with
        the same key go to the same partition, unless `partition` is given.
        """
        try:
            receipt = self._intake.send(
                topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        except _MustWait as record:
            return await self._send_otherwise(OutgoingRecord(*record.args))
        if self._host.is_turn_due:
            self._host.is_turn_due = False
            await asyncio.sleep(0)
        return receipt

    async def _send_otherwise(self, record: OutgoingRecord) -> Receipt:
        core = self._core
        core.check_send()
        deadline_ms = core.client.deadline(core.max_block_ms)
        record = core.intercept(record)
        while (prepared := core.prepare(record)) is None:
            await core.load_topic(record.topic, deadline_ms=deadline_ms)
        while (receipt := core.append(prepared)) is None:
            await core.wait_for_room(prepared.size_bytes_max, deadline_ms=deadline_ms)
            core.check_send()
        return receipt

    async def send_arrow(self, table: AnyTable, *, topic: str | None = None) -> RowsReceipt:
        """Send the rows of a pyarrow Table or RecordBatch, without Python per row. Returns one receipt for all rows.

            receipt = await producer.send_arrow(table, topic="orders")

        Columns: `value`, and optionally `key`, `headers`, `topic`, `partition`, `timestamp`. Bytes and text are sent
        without serializers; the argument `topic` overrides the column. Waits up to `max.block.ms` each time the buffer
        is full. If a row is invalid, the error names it and no row is sent. Tables of pandas, polars and other
        libraries with the Arrow interface are accepted too.
        """
        core = self._core
        core.check_send()
        sending = RowSending(core, table, topic, stops_when_filled=True)
        for name in sending.unknown_topics():
            await core.load_topic(name, deadline_ms=self._deadline())
        while (wanted := sending.advance()) is not None:
            if wanted:
                await core.wait_for_room(wanted, deadline_ms=self._deadline())
            else:
                await asyncio.sleep(0)
        return sending.receipt

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far is written or has failed. Raises the first failure whose receipt was not
        awaited; `TimedOut` after `timeout` seconds."""
        self._core.check_open()
        deadline_ms = None if timeout is None else self._core.client.deadline(milliseconds(timeout))
        await self._core.flush(deadline_ms=deadline_ms)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with their leaders."""
        return await self._core.partitions_for(topic, deadline_ms=self._deadline())

    async def begin(self) -> None:
        """Begin a transaction. The first one takes over the `transactional.id` and fences its earlier producer."""
        await self._core.begin(deadline_ms=self._deadline())

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take over the `transactional.id`, as the first `begin` does by itself.

        An open transaction of the earlier producer is aborted. With `keep_prepared` (KIP-939) a prepared one stays open
        and is returned; it can only be ended. It may be called again after `prepare_transaction`, when another process
        has ended that transaction.
        """
        return await self._core.init_transactions(keep_prepared=keep_prepared, deadline_ms=self._deadline())

    async def prepare_transaction(self) -> PreparedTransaction:
        """Write and flush everything, and leave the transaction open (KIP-939).

        After this it can only be ended: by `commit`, `abort` or `complete_transaction` here, or by
        `Admin.complete_transaction` in any process, also after this producer is closed.
        """
        return await self._core.prepare_transaction(deadline_ms=self._deadline())

    async def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the prepared transaction if it is this one, else abort it (KIP-939). True if it was committed."""
        return await self._core.complete_transaction(prepared, deadline_ms=self._deadline())

    async def commit(self) -> None:
        """Commit the transaction: read_committed consumers see its records, and its offsets are committed."""
        await self._core.commit(deadline_ms=self._deadline())
        self._transaction_consumer.committed()

    async def abort(self) -> None:
        """Abort the transaction: read_committed consumers never see its records."""
        await self._abort()
        self._transaction_consumer.aborted()

    async def _abort(self) -> None:
        await self._core.abort(deadline_ms=self._deadline())

    async def send_offsets(
        self, consumer_or_offsets: Consumed, group: GroupMetadata | str | None = None
    ) -> None:
        """Commit offsets with the transaction: those of a consumer, or a mapping for a group."""
        offsets, metadata = offsets_and_group(consumer_or_offsets, group)
        await self._core.send_offsets(offsets, metadata, deadline_ms=self._deadline())

    @contextlib.asynccontextmanager
    async def transaction(self, *, consumer: RewindableConsumer | None = None) -> AsyncIterator[Transaction]:
        """A transaction that is committed at the end of the block, and aborted if the block raises.

            async with producer.transaction(consumer=consumer):
                for message in await consumer.poll():
                    await producer.send("results", handle(message))

        With a `consumer`, the offsets of its returned messages are committed with the transaction. After an abort the
        consumer is rewound, so that it returns the same messages again. It needs `enable_auto_commit=False`.

        If the commit times out, is cancelled or interrupted, the transaction may have been committed: call `commit()`
        to learn the outcome. Until then the consumer is not rewound.
        """
        check_consumer(consumer)
        steps = self._transaction_consumer
        with steps.beginning(consumer):
            await self.begin()
        try:
            yield Transaction(self)
            if (offsets := steps.offsets()) is not None:
                await self.send_offsets(*offsets)
            steps.committing()
            await self.commit()
        except BaseException as error:
            if steps.must_abort(error):
                with steps.aborting():
                    await self._abort()
            raise

    async def close(self, timeout: float | None = None) -> None:
        """Send all records and close, within `timeout` seconds (60 by default). Raises the first failure whose receipt
        was not awaited."""
        timeout_ms = milliseconds(CLOSE_TIMEOUT_S if timeout is None else timeout)
        if not self._is_closed:
            self._is_closed = True
            try:
                await self._core.close(deadline_ms=self._core.client.deadline(timeout_ms))
            finally:
                await self._guard.release()

    async def __aenter__(self) -> Self:
        self._core.check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            with contextlib.suppress(errors.PenstockError):  # the exception of the block is more important
                await self.close()

    def _deadline(self) -> int:
        return self._core.client.deadline(self._core.max_block_ms)


class Transaction:
    """The calls inside a transaction, in addition to `Producer.send`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def send_offsets(
        self, consumer_or_offsets: Consumed, group: GroupMetadata | str | None = None
    ) -> None:
        """See `Producer.send_offsets`."""
        await self._producer.send_offsets(consumer_or_offsets, group)
