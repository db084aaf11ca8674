"""The common core of the sync and the async producer.

`prepare` and `append` run in the thread that sends, and use only the intake and immutable metadata. All coroutines, and
the sender, run on the client's loop. A constructor opens nothing: the first call that needs it calls `start` on the
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import random
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client import errors
from penstock.client.cluster import Cluster, PartitionInfo, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.group.types import GroupMetadata, Offset
from penstock.client.prepared_transaction import PreparedTransaction
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.buffer_waiters import BufferWaiters
from penstock.client.producer.idempotence import Idempotence
from penstock.client.producer.interceptors import OutgoingRecord, interceptors_of
from penstock.client.producer.last_errors import with_reason
from penstock.client.producer.partitioners import Sticky
from penstock.client.producer.preparing import Prepared, Preparer
from penstock.client.producer.sender import Sender
from penstock.client.producer.sender_state import SendRules
from penstock.client.producer.transactions import State, Transactions
from penstock.client.producer.transactor import Transactor
from penstock.client.serializers import serialization_failed, serializer_of
from penstock.client.settings import ProducerSettings
from penstock.records.batch import Compression
from penstock.records.producing import Intake, PartitionQueue, ProducerBatch, Receipt, TopicQueues
from penstock.runtime.clock import Clock
from penstock.runtime.network import Network

UNKNOWN_TOPIC_PATIENCE_MS = (
    10_000  # for a topic that is being created; an unknown topic is reported after this, not after a minute
)
UNENDED = (State.OPEN, State.FLUSHING, State.ABORTABLE_ERROR)

_LIVING: weakref.WeakSet[ProducerCore] = weakref.WeakSet()


class ProducerCore:
    def __init__(
        self,
        settings: ProducerSettings,
        host: Any,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.client = ClusterClient(settings, network=network, clock=clock, rng=rng)
        self.max_block_ms: int = settings.get("max.block.ms")
        self.transactional_id: str | None = settings.get("transactional.id")
        self._key_serializer = serializer_of(settings.get("key.serializer"), settings)
        self._value_serializer = serializer_of(settings.get("value.serializer"), settings)
        self.interceptors = interceptors_of(settings.get("interceptor.classes"))
        self._preparer = Preparer(settings, lambda: self.client.cluster)
        self._sticky = Sticky(
            is_adaptive=settings.get("partitioner.adaptive.partitioning.enable"), rng=self.client.random
        )
        self.buffer_bytes: int = settings.get("buffer.memory")
        self.record_bytes_max = min(settings.get("max.request.size"), self.buffer_bytes)
        self.intake = Intake(
            host,
            batch_bytes_max=settings.get("batch.size"),
            buffer_bytes=self.buffer_bytes,
            record_bytes_max=settings.get("max.request.size"),
            wall_ms=None if clock is None else clock.wall_ms,
            now_ms=None if clock is None else self.client.now_ms,
            ignores_keys=self._preparer.ignores_keys,
        )
        self.transactions = None if self.transactional_id is None else Transactions(self.transactional_id)
        idempotence = None
        if settings.get("enable.idempotence"):
            idempotence = Idempotence(is_transactional=self.transactions is not None)
        in_flight_max = settings.get("max.in.flight.requests.per.connection")
        self.accumulator = Accumulator(
            self.intake,
            linger_ms=settings.get("linger.ms"),
            delivery_timeout_ms=settings.get("delivery.timeout.ms"),
            is_one_at_a_time=in_flight_max == 1,
            idempotence=idempotence,
        )
        compression = Compression[settings.get("compression.type").upper()]
        self.sender = Sender(
            self.client,
            self.accumulator,
            SendRules(
                acks=settings.acks,
                request_timeout_ms=settings.get("request.timeout.ms"),
                request_bytes_max=settings.get("max.request.size"),
                in_flight_max=in_flight_max,
                retries=settings.get("retries"),
                compression=compression,
                level=_level(settings, compression),
                availability_timeout_ms=settings.get("partitioner.availability.timeout.ms"),
            ),
            self.client.backoff,
            idempotence=idempotence,
            transactions=self.transactions,
            on_failure=self._note_failure,
            on_room=self._buffer_freed,
        )
        self._transactor: Transactor | None = None
        if self.transactions is not None:
            assert idempotence is not None, "a transactional producer is idempotent"
            self._transactor = Transactor(
                self.client,
                self.transactions,
                idempotence,
                self.client.backoff,
                timeout_ms=settings.get("transaction.timeout.ms"),
                is_two_phase=settings.get("transaction.two.phase.commit.enable"),
            )
            self.sender.on_want_partitions = self._add_partitions
            self.sender.outcomes.on_refused_epoch = self._check_fenced
            self.transactions.on_change = self.update_gate
        self.sender.on_leaderless = self._want
        self._idle_ms_max: int = settings.get("metadata.max.idle.ms")
        self.is_started = False
        self.on_started: Callable[[], None] = lambda: None
        """Called on the loop, when the producer is first used there."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failures: list[ProducerBatch] = []
        self._buffer_waiters = BufferWaiters(self.intake, self.buffer_bytes)
        self.refusal: errors.PenstockError | None = None
        """Why nothing can be sent any more: closed, or the process was forked."""
        self.update_gate()
        _LIVING.add(self)

    # -- in the thread that sends

    def update_gate(self) -> None:
        """Allow the compiled path of `send` only if nothing but the record has to be checked."""
        self.intake.is_open = self.refusal is None and (
            self.transactions is None or self.transactions.state is State.OPEN
        )
        self.intake.is_plain = (
            self.intake.is_open and not self.interceptors and self._preparer.partitioner is None
        )

    def check_open(self) -> None:
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)

    def check_send(self) -> None:
        self.check_open()
        if self.transactions is not None:
            self.transactions.check_send()

    def intercept(self, record: OutgoingRecord) -> OutgoingRecord:
        return self.interceptors.on_send(record) if self.interceptors else record

    @property
    def takes_rows(self) -> bool:
        """Whether the kernel may take the rows of a table: no interceptor or partitioner needs each record."""
        return not self.interceptors and self._preparer.partitioner is None

    def prepare(self, record: OutgoingRecord, *, is_serialized: bool = False) -> Prepared | None:
        """The record as bytes with its partition; None if its topic is unknown yet."""
        if not isinstance(record.topic, str):
            raise errors.BadArgument(
                f"topic must be a string, not {record.topic!r} of type {type(record.topic).__name__}"
            )
        topic = self.intake.topics.get(record.topic)
        return None if topic is None else self._preparer.prepare(record, topic, is_serialized=is_serialized)

    def append(self, prepared: Prepared) -> Receipt | None:
        """The record's receipt; None if the buffer is full."""
        receipt = self.intake.append(
            prepared.topic,
            prepared.partition,
            prepared.timestamp_ms,
            prepared.key,
            prepared.value,
            prepared.headers or None,
        )
        if receipt is not None and self.interceptors:
            self.interceptors.watch(receipt)
        return receipt

    def choose(self, topic: TopicQueues) -> PartitionQueue:
        """The next sticky partition, for records without a key."""
        known = self.client.cluster.topics.get(topic.name)
        infos = () if known is None else known.partitions
        available = [
            index < len(infos)
            and infos[index].leader_id >= 0
            and not self.sender.is_behind(infos[index].leader_id)
            for index in range(len(topic.queues))
        ]
        counts = self.accumulator.queued_counts(topic.queues)
        return topic.queues[self._sticky.next_partition(available, counts)]

    @staticmethod
    def serialization_failed(error: Exception, topic: str, value: object, is_key: bool) -> Exception:
        return serialization_failed(error, topic, value, is_key=is_key)

    # -- on the loop

    def check_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop. Connections and timers belong to the first one: on another loop a wait would never end."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise errors.IllegalState(
                "a producer belongs to the event loop that first used it; create one in each asyncio.run()"
            )
        return loop

    def start(self) -> None:
        self.check_loop()
        if not self.is_started:
            self.is_started = True
            self.client.on_update(lambda cluster: self._take_cluster())
            self.sender.start()
            self.on_started()

    async def load_topic(self, name: str, *, deadline_ms: int) -> None:
        """Load the metadata of a topic, which the broker may create."""
        self.check_open()
        self.start()
        if not name:
            raise errors.BadArgument("the topic name must not be empty")
        cluster = await self._cluster_with(name, deadline_ms)
        self.intake.topics.setdefault(
            name,
            TopicQueues(
                name,
                len(cluster.topics[name].partitions),
                None if self._key_serializer is None else self._key_serializer.for_topic(name, is_key=True),
                None
                if self._value_serializer is None
                else self._value_serializer.for_topic(name, is_key=False),
            ),
        )
        self.client.want(list(self.intake.topics))

    def metrics(self) -> dict[str, int]:
        counts = dataclasses.asdict(self.sender.counts)
        return {name.replace("_", "-"): count for name, count in counts.items()} | {
            "requests-in-flight": self.sender.in_flight,
            "buffer-available-bytes": self.intake.available_bytes,
            "buffer-total-bytes": self.buffer_bytes,
        }

    async def partitions_for(self, name: str, *, deadline_ms: int) -> list[PartitionInfo]:
        self.check_open()
        self.start()
        cluster = await self._cluster_with(name, deadline_ms)
        return list(cluster.topics[name].partitions)

    async def _cluster_with(self, name: str, deadline_ms: int) -> Cluster:
        return await self.client.topics(
            [name], deadline_ms=deadline_ms, may_create=True, patience_ms=UNKNOWN_TOPIC_PATIENCE_MS
        )

    async def wait_for_room(self, size_bytes: int, *, deadline_ms: int) -> None:
        """Return when this many bytes are free; BufferFull at the deadline."""
        self.check_open()
        self.start()
        waiter = self._buffer_waiters.add(size_bytes)
        if waiter is None:
            return
        self.accumulator.is_urgent = True
        self.sender.pump()
        try:
            async with asyncio.timeout_at(deadline_ms / 1000):
                await waiter
        except TimeoutError:
            full = with_reason(errors.BufferFull(), self.sender.last_error())
            raise full from full.__cause__
        finally:
            self._buffer_waiters.remove(waiter)
            self.accumulator.is_urgent = bool(self._buffer_waiters)

    async def flush(self, *, deadline_ms: int | None) -> None:
        """Return when every record sent so far has an outcome; raises the first failure whose receipt was not used."""
        await self._flush(deadline_ms)
        self.raise_failure()
        if self.transactions is not None:
            self.transactions.check_usable()

    async def _flush(self, deadline_ms: int | None) -> None:
        self.start()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        self.accumulator.flush(finish)
        self.sender.pump()
        limit = None if deadline_ms is None else deadline_ms / 1000
        try:
            async with asyncio.timeout_at(limit):
                await done
        except TimeoutError:
            message = f"{self.accumulator.record_count} record(s) were not acknowledged in time"
            late = with_reason(errors.TimedOut(message), self.sender.last_error())
            raise late from late.__cause__

    async def drain(self, *, deadline_ms: int) -> None:
        """Before `close`, if tasks of this client may have been cancelled: send every record that can be sent."""
        if not self.is_started or self.accumulator.is_empty or self._is_fatal():
            return
        if self.transactions is not None and self.transactions.state in UNENDED:
            return  # an open transaction is aborted
        self.client.want(list(self.intake.topics))  # this restarts metadata updates
        with contextlib.suppress(errors.TimedOut):
            await self._flush(deadline_ms)

    def raise_failure(self) -> None:
        """The first failure whose receipt was not used, once."""
        failures, self._failures = self._failures, []
        for batch in failures:
            if batch.has_unasked_failure and batch.error is not None:
                raise batch.error.with_traceback(None)

    async def close(self, *, deadline_ms: int) -> None:
        """Send all records within the deadline, then close; raises the first failure whose receipt was not used."""
        self.refusal = errors.ClientClosed()
        self.update_gate()
        try:
            if self.transactions is not None and self.transactions.state in UNENDED:
                with contextlib.suppress(errors.PenstockError):  # the coordinator aborts it after its timeout
                    await self._end(is_commit=False, deadline_ms=deadline_ms)
            if self.is_started and not self.accumulator.is_empty and not self._is_fatal():
                with contextlib.suppress(errors.TimedOut):
                    await self._flush(deadline_ms)
        finally:
            if self._transactor is not None:
                self._transactor.stop()
            await self.sender.stop()
            self._buffer_waiters.close()
            await self.client.close(timeout_ms=max(0, deadline_ms - self.client.now_ms()))
            self.interceptors.close()
        self.raise_failure()

    # -- transactions

    @property
    def transactor(self) -> Transactor:
        if self._transactor is None:
            raise errors.IllegalState(
                "transactions need a transactional.id, which must stay the same when the program restarts"
            )
        return self._transactor

    async def begin(self, *, deadline_ms: int) -> None:
        """Begin a transaction; the first one takes over the transactional id."""
        self.check_open()
        transactor = self.transactor
        assert self.transactions is not None
        self.start()
        if self.transactions.state is State.UNINITIALIZED:
            await transactor.initialize(keep_prepared=False, deadline_ms=deadline_ms)
        self.transactions.begin()

    async def init_transactions(self, *, keep_prepared: bool, deadline_ms: int) -> PreparedTransaction | None:
        """Take over the transactional id; returns the prepared transaction that was found and kept."""
        self.check_open()
        transactor = self.transactor
        assert self.transactions is not None
        self.transactions.check_initialize()
        self.start()
        await transactor.initialize(keep_prepared=keep_prepared, deadline_ms=deadline_ms)
        return None if transactor.open_identity is None else transactor.prepared()

    async def prepare_transaction(self, *, deadline_ms: int) -> PreparedTransaction:
        """Flush everything, and leave the transaction open for another process to end."""
        self.check_open()
        transactor, transactions = self.transactor, self.transactions
        assert transactions is not None
        with transactions.flushing():
            await self._await_batches(deadline_ms)
            transactions.prepared()
        return transactor.prepared()

    async def complete_transaction(self, prepared: PreparedTransaction, *, deadline_ms: int) -> bool:
        """Commit the prepared transaction if it is this one, else abort it; True if committed (KIP-939)."""
        self.check_open()
        transactor, transactions = self.transactor, self.transactions
        assert transactions is not None
        transactions.check_usable()
        if transactions.state is not State.PREPARED:
            raise errors.IllegalState(f"no transaction is prepared: the producer {transactions.state.value}")
        own = transactor.prepared()
        is_commit = (prepared.producer_id, prepared.producer_epoch) == (own.producer_id, own.producer_epoch)
        await self._end(is_commit=is_commit, deadline_ms=deadline_ms)
        return is_commit

    async def commit(self, *, deadline_ms: int) -> None:
        self.check_open()
        await self._end(is_commit=True, deadline_ms=deadline_ms)

    async def abort(self, *, deadline_ms: int) -> None:
        self.check_open()
        await self._end(is_commit=False, deadline_ms=deadline_ms)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Offset], group: GroupMetadata, *, deadline_ms: int
    ) -> None:
        self.check_open()
        await self.transactor.send_offsets(offsets, group, deadline_ms=deadline_ms)

    async def _end(self, *, is_commit: bool, deadline_ms: int) -> None:
        transactor, transactions = self.transactor, self.transactions
        assert transactions is not None
        if is_commit:
            with transactions.flushing():
                await self._await_batches(deadline_ms)
                transactions.begin_commit()
        else:
            transactions.begin_abort()
            self.sender.fail_unsent(errors.TransactionAborted())
            await self._await_batches(deadline_ms)
            transactions.begin_abort()
        try:
            await transactor.end(is_commit=is_commit, deadline_ms=deadline_ms)
        finally:
            self.sender.pump()

    async def _await_batches(self, deadline_ms: int) -> None:
        """Wait until every batch has an outcome. The transaction reports failures."""
        await self._flush(deadline_ms)
        self._failures.clear()

    def _add_partitions(self) -> None:
        deadline_ms = self.client.deadline(self.max_block_ms)
        self.transactor.add_partitions(deadline_ms=deadline_ms, when_done=self.sender.pump)

    def _check_fenced(self) -> None:
        deadline_ms = self.client.deadline(self.max_block_ms)
        self.transactor.check_fenced(deadline_ms=deadline_ms, when_done=self.sender.epoch_checked)

    # -- helpers

    def _is_fatal(self) -> bool:
        return self.transactions is not None and self.transactions.state is State.FATAL_ERROR

    def _note_failure(self, batch: ProducerBatch) -> None:
        self._failures.append(batch)

    def _buffer_freed(self) -> None:
        self._buffer_waiters.advance()
        self.accumulator.is_urgent = bool(self._buffer_waiters)

    def _want(self, names: set[str]) -> None:
        self.client.want([*self.intake.topics, *names])

    def _take_cluster(self) -> None:
        """Topics may have more partitions now, and topics that were unused for long leave the metadata."""
        idle_since_ms = self.client.now_ms() - self._idle_ms_max
        busy = {line.topic for line in self.accumulator.lines}
        for name, used_ms in list(self.sender.used_ms.items()):
            if used_ms < idle_since_ms and name not in busy:
                del self.sender.used_ms[name]
                self.intake.topics.pop(name, None)
                self.client.want(list(self.intake.topics))
        for name, topic in self.intake.topics.items():
            known = self.client.cluster.topics.get(name)
            if known is not None and len(known.partitions) > len(topic.queues):
                topic.grow(len(known.partitions))


def _level(settings: ProducerSettings, compression: Compression) -> int | None:
    if compression in (Compression.NONE, Compression.SNAPPY):
        return None
    level: int = settings.get(f"compression.{compression.name.lower()}.level")
    return level


def _refuse_after_fork() -> None:
    for core in _LIVING:
        core.refusal = errors.UsedAfterFork()
        core.update_gate()


os.register_at_fork(after_in_child=_refuse_after_fork)
