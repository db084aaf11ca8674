"""The producer for asyncio: the same core on the caller's own loop.

`await producer.send(...)` takes the record in and gives a receipt; `await receipt` tells where it was written. Sending
waits only for what a program has to wait for: a topic that is not known yet, room in the buffer, and now and then a
turn of the loop, without which a task that does nothing but send would keep batches from going out.

Invariant: after `close` there is no task, no timer and no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from penstock.client import errors
from penstock.client.cluster import PartitionInfo
from penstock.client.deadlines import milliseconds
from penstock.client.group.nouns import GroupMetadata
from penstock.client.options import ProducerOptions
from penstock.client.producer.core import ProducerCore
from penstock.client.producer.interceptors import OutgoingRecord
from penstock.client.producer.offsets import Consumed, offsets_and_group
from penstock.client.producer.prepared import PreparedTransaction
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
    """The short way does not lead there; its arguments are the record's fields."""


class _Host:
    """What the intake needs, on the loop itself."""

    def __init__(self, settings: ProducerSettings, network: Network | None, clock: Clock | None) -> None:
        self.core = ProducerCore(settings, self, network=network, clock=clock)
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
        raise errors.IllegalState("a receipt of an async producer is awaited: `await receipt`")


class Producer:
    """Sends records to topics.

        async with Producer("localhost:9092", serializer="json") as producer:
            receipt = await producer.send("orders", {"id": 1}, key="alice")
            delivery = await receipt

    The first argument is where the cluster is found, or a mapping of all settings. Settings have Kafka's names, with
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
        **options: Unpack[ProducerOptions],
    ) -> None:
        taken = ProducerSettings.of(bootstrap_servers, settings, options)
        self._host = _Host(taken, network, clock)
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
        """Counts of what was done so far, and the state of the buffer, by Kafka's names."""
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
        """Take a record in, and give its receipt, which can be awaited.

        Keys and values are made bytes by the producer's serializers; without one they are bytes or text. Records of one
        key go to one partition, unless `partition` names it.
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
            await core.make_known(record.topic, deadline_ms=deadline_ms)
        while (receipt := core.append(prepared)) is None:
            await core.wait_for_room(prepared.size_bytes_max, deadline_ms=deadline_ms)
            core.check_send()
        return receipt

    async def send_arrow(self, table: AnyTable, *, topic: str | None = None) -> RowsReceipt:
        """Send the rows of a Table or RecordBatch of pyarrow, with no Python for a row; one receipt for all of them,
        which can be awaited.

        Columns: `value`, and where there are `key`, `headers`, `topic`, `partition`, `timestamp`. Bytes and text are
        sent as they are, without serializers; `topic` goes before the column. Waits while the buffer is full, for
        `max.block.ms` each time. A row that cannot be sent is named, and then none is. Tables of pandas, polars and
        others that give their columns away as Arrow's are taken too.
        """
        core = self._core
        core.check_send()
        sending = RowSending(core, table, topic, stops_when_filled=True)
        for name in sending.unknown_topics():
            await core.make_known(name, deadline_ms=self._deadline())
        while (wanted := sending.advance()) is not None:
            if wanted:
                await core.wait_for_room(wanted, deadline_ms=self._deadline())
            else:
                await asyncio.sleep(0)
        return sending.receipt

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is written or has failed; raises the first failure whose receipt nobody
        asked. `timeout` is in seconds; TimedOut when it passes."""
        self._core.check_open()
        deadline_ms = None if timeout is None else self._core.client.deadline(milliseconds(timeout))
        await self._core.flush(deadline_ms=deadline_ms)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic and who leads them."""
        return await self._core.partitions_for(topic, deadline_ms=self._deadline())

    async def begin(self) -> None:
        """Begin a transaction. The first one takes the `transactional.id` over from whoever had it."""
        await self._core.begin(deadline_ms=self._deadline())

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the `transactional.id` over from whoever had it, as the first `begin` does by itself.

        What was left open is aborted; with `keep_prepared` (KIP-939) it stays, is returned, and can only be ended. May
        be called again after `prepare_transaction`, when somebody else has ended that one.
        """
        return await self._core.init_transactions(keep_prepared=keep_prepared, deadline_ms=self._deadline())

    async def prepare_transaction(self) -> PreparedTransaction:
        """Have everything written, and leave the transaction open.

        From now on it can only be ended: by `commit`, `abort` or `complete_transaction` here, or by
        `Admin.complete_transaction` anywhere, also after this producer is closed.
        """
        return await self._core.prepare_transaction(deadline_ms=self._deadline())

    async def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the prepared transaction if it is this one, else abort it (KIP-939). True where it was committed."""
        return await self._core.complete_transaction(prepared, deadline_ms=self._deadline())

    async def commit(self) -> None:
        """Commit the transaction: its records become visible to readers of committed ones, and its offsets count."""
        await self._core.commit(deadline_ms=self._deadline())
        self._transaction_consumer.committed()

    async def abort(self) -> None:
        """Abort the transaction: none of its records will be seen by readers of committed ones."""
        await self._abort()
        self._transaction_consumer.aborted()

    async def _abort(self) -> None:
        await self._core.abort(deadline_ms=self._deadline())

    async def send_offsets(
        self, consumer_or_offsets: Consumed, group: GroupMetadata | str | None = None
    ) -> None:
        """Have the offsets of a consumer, or of a mapping and a group, committed with the transaction."""
        offsets, metadata = offsets_and_group(consumer_or_offsets, group)
        await self._core.send_offsets(offsets, metadata, deadline_ms=self._deadline())

    @contextlib.asynccontextmanager
    async def transaction(self, *, consumer: RewindableConsumer | None = None) -> AsyncIterator[Transaction]:
        """A transaction that is committed at the end of the block, and aborted if the block raises.

        With a `consumer`, the offsets of what it has been given are committed with the transaction. After an abort the
        consumer is rewound, so that it gives the same messages again. It needs `enable_auto_commit=False`.

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
        """Send what there is, for `timeout` seconds (a minute) at most, and end. Raises the first failure nobody
        asked for."""
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
            with contextlib.suppress(errors.PenstockError):  # what went wrong inside is what counts
                await self.close()

    def _deadline(self) -> int:
        return self._core.client.deadline(self._core.max_block_ms)


class Transaction:
    """What can be done in a transaction besides sending."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def send_offsets(
        self, consumer_or_offsets: Consumed, group: GroupMetadata | str | None = None
    ) -> None:
        """See `Producer.send_offsets`."""
        await self._producer.send_offsets(consumer_or_offsets, group)
