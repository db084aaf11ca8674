"""Producers that record acknowledgements in the ledger.

`PlainProducer` never retries: unacknowledged records may be in the log or not. `IdempotentProducer` keeps up to five
batches in flight and resends each with the same sequence numbers until it is acknowledged, like real clients. In the
end every record is in the log exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord
from simulator.checks.ledger import Ledger, PartitionLedger, make_value
from simulator.clients.client import LostConnection, SimulatedClient
from simulator.simulation import BrokenPromise, Simulation

TIMEOUT_MS = 30_000
PAUSE_S_MAX = 0.2
IN_FLIGHT_MAX = 5  # the limit of an idempotent producer
LARGE_BYTES = 12_000  # now and then, so that indexes get entries and frames arrive in pieces

UNKNOWN_TOPIC_ERRORS = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
STOPPING = (ErrorCode.NOT_LEADER_OR_FOLLOWER,)


@dataclass(slots=True)
class Conditions:
    """Which errors clients must expect, and whether the faults are over."""

    is_over: Callable[[], bool]
    is_disk_degraded: Callable[[], bool]
    """Whether some directory may be offline."""


class _Producer(SimulatedClient):
    def __init__(
        self,
        simulation: Simulation,
        name: str,
        topic: str,
        ledger: Ledger,
        conditions: Conditions,
        *,
        acks: int,
    ) -> None:
        super().__init__(simulation, name)
        self.topic = topic
        self.ledger = ledger
        self.conditions = conditions
        self.acks = acks

    def make_values(self, generation: int, first_number: int) -> list[bytes]:
        """One to three consecutive records."""
        rng = self.random
        padding = LARGE_BYTES if rng.random() < 0.02 else rng.randint(0, 100)
        return [
            make_value(self.name, generation, first_number + i, padding)
            for i in range(rng.choice((1, 1, 2, 3)))
        ]

    def make_batch(
        self, values: Sequence[bytes], *, producer_id: int = -1, epoch: int = -1, sequence: int = -1
    ) -> bytes:
        now_ms = self.simulation.clock.wall_ms()
        return bytes(
            kernel.build_batch(
                [NewRecord(now_ms, None, value) for value in values],
                compression=self.random.choice(list(Compression)),
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    def make_request(self, topic_id: Uuid, batches: dict[int, bytes]) -> ProduceRequest:
        return ProduceRequest(
            acks=self.acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    topic_id=topic_id,
                    partition_data=[
                        PartitionProduceData(index=index, records=batch) for index, batch in batches.items()
                    ],
                )
            ],
        )

    def check_refusal(self, answer: PartitionProduceResponse, *, also: Sequence[ErrorCode] = ()) -> None:
        """Errors that no fault explains are broken promises."""
        error = answer.error_code
        if error in STOPPING or error in also:
            return
        if error == ErrorCode.KAFKA_STORAGE_ERROR and self.conditions.is_disk_degraded():
            return
        raise BrokenPromise(
            f"{self.topic}-{answer.index} rejected records of {self.name}: {error.name} {answer.error_message}"
        )

    async def pause(self) -> None:
        await asyncio.sleep(self.random.uniform(0, PAUSE_S_MAX))


class PlainProducer(_Producer):
    """Sends several requests at once, each to several partitions, with acks=0, 1 or all. Its topic may be deleted."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        topic: str,
        ledger: Ledger,
        conditions: Conditions,
        *,
        acks: int,
    ) -> None:
        super().__init__(simulation, name, topic, ledger, conditions, acks=acks)
        self._number = 0
        """The next free number."""

    async def run(self) -> None:
        while not self.conditions.is_over():
            try:
                found = await self.find_topic(self.topic)
                while found is not None and not self.conditions.is_over():
                    is_deleted = await self._send_some(*found)
                    await self.pause()
                    if is_deleted:
                        break
                await self.pause()
            except LostConnection:
                continue

    async def check_writable(self) -> None:
        """Write a little to a topic after the last fault: it has to be acknowledged."""
        found = await self.find_topic(self.topic)
        count = self.ledger.acknowledged_count()
        if found is None or await self._send_some(*found) or self.ledger.acknowledged_count() == count:
            raise BrokenPromise(f"{self.name} cannot write to {self.topic} after the last fault")

    async def _send_some(self, topic_id: Uuid, partition_count: int) -> bool:
        """Returns whether the topic was deleted."""
        rng = self.random
        sent: list[tuple[ProduceRequest, asyncio.Future[object], dict[int, list[bytes]]]] = []
        for _ in range(rng.randint(1, 3)):
            values: dict[int, list[bytes]] = {}
            for index in sorted(rng.sample(range(partition_count), rng.randint(1, partition_count))):
                values[index] = self.make_values(self.connections, self._number)
                self._number += len(values[index])
                self._ledger_of(topic_id, index).sent.update(values[index])
            batches = {index: self.make_batch(each) for index, each in values.items()}
            request = self.make_request(topic_id, batches)
            if self.acks == 0:
                self.send_and_forget(request)
            else:
                sent.append((request, self.send(request), values))
        is_deleted = False
        for request, future, values in sent:
            response = await self.answer(request, future)
            for answer in response.responses[0].partition_responses:
                if answer.error_code == ErrorCode.NONE:
                    self._ledger_of(topic_id, answer.index).acknowledged(
                        answer.base_offset, values[answer.index]
                    )
                else:
                    self.check_refusal(answer, also=UNKNOWN_TOPIC_ERRORS)
                    is_deleted |= answer.error_code in UNKNOWN_TOPIC_ERRORS
        return is_deleted

    def _ledger_of(self, topic_id: Uuid, index: int) -> PartitionLedger:
        return self.ledger.get(self.topic, topic_id, index)


@dataclass(slots=True)
class _Batch:
    values: list[bytes]
    data: bytes


@dataclass(slots=True)
class _PartitionQueue:
    """One partition of an idempotent producer."""

    index: int
    ledger: PartitionLedger
    sequence: int = 0
    unacknowledged: list[_Batch] = field(default_factory=list)


class IdempotentProducer(_Producer):
    """Writes to every partition that its topic had at the start. The topic must not be deleted."""

    def __init__(
        self, simulation: Simulation, name: str, topic: str, ledger: Ledger, conditions: Conditions
    ) -> None:
        super().__init__(simulation, name, topic, ledger, conditions, acks=-1)
        self._in_flight_max = self.random.choice((1, 2, IN_FLIGHT_MAX))
        self._number = 0
        self._generation = 0
        self._producer_id = -1
        self._topic_id: Uuid
        self._queues: list[_PartitionQueue] = []

    async def run(self) -> None:
        while not self.conditions.is_over() or self._has_unacknowledged():
            try:
                if not self._queues:
                    await self._find_partitions()
                if self._producer_id < 0:
                    await self._use_new_producer_id()
                elif self.random.random() < 0.05:
                    await self._get_producer_id()  # it is not used, but must be unique
                if self._queues and self._producer_id >= 0:
                    await self.connect()
                    await self._send_queue(self.random.choice(self._queues))
                await self.pause()
            except LostConnection:
                continue

    def _has_unacknowledged(self) -> bool:
        return any(queue.unacknowledged for queue in self._queues)

    async def _find_partitions(self) -> None:
        found = await self.find_topic(self.topic)
        if found is None:
            return
        self._topic_id, partition_count = found
        self._queues = [
            _PartitionQueue(index, self.ledger.get(self.topic, self._topic_id, index))
            for index in range(partition_count)
        ]

    async def _use_new_producer_id(self) -> None:
        """Get a producer id and resend unacknowledged records with it."""
        producer_id = await self._get_producer_id()
        if producer_id is None:
            return
        self._producer_id = producer_id
        self._generation += 1
        for queue in self._queues:
            unacknowledged = [value for batch in queue.unacknowledged for value in batch.values]
            queue.sequence, queue.unacknowledged = 0, []
            if unacknowledged:
                numbers = [int(value.split(b"/", 3)[2]) for value in unacknowledged]
                self._add(queue, [make_value(self.name, self._generation, number, 0) for number in numbers])

    async def _get_producer_id(self) -> int | None:
        """A new producer id; None if none is available for now."""
        response = await self.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
        if response.error_code == ErrorCode.NONE:
            self.ledger.producer_id_given(response.producer_id)
            return int(response.producer_id)
        if not response.error_code.is_retriable:
            raise BrokenPromise(f"{self.name} got no producer id: {response.error_code.name}")
        return None

    def _add(self, queue: _PartitionQueue, values: list[bytes]) -> None:
        data = self.make_batch(values, producer_id=self._producer_id, epoch=0, sequence=queue.sequence)
        queue.sequence += len(values)
        queue.ledger.sent.update(values)
        queue.unacknowledged.append(_Batch(values, data))

    async def _send_queue(self, queue: _PartitionQueue) -> None:
        if not self.conditions.is_over():
            for _ in range(self.random.randint(0, self._in_flight_max - len(queue.unacknowledged))):
                values = self.make_values(self._generation, self._number)
                self._number += len(values)
                self._add(queue, values)
        sent = []
        for batch in queue.unacknowledged:
            request = self.make_request(self._topic_id, {queue.index: batch.data})
            sent.append((batch, request, self.send(request)))
        has_failed = False
        for batch, request, future in sent:
            response = await self.answer(request, future)
            (answer,) = response.responses[0].partition_responses
            if answer.error_code == ErrorCode.NONE:
                queue.ledger.acknowledged(answer.base_offset, batch.values)
                queue.unacknowledged.remove(batch)
            elif answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not has_failed:
                self._reset_producer_id(queue, answer)
                return
            else:
                self.check_refusal(
                    answer, also=(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,) if has_failed else ()
                )
                has_failed = True

    def _reset_producer_id(self, queue: _PartitionQueue, answer: PartitionProduceResponse) -> None:
        """The log lost acknowledged records, which is allowed without flush.messages=1. Continue with a new producer
        id."""
        if queue.ledger.is_durable or not queue.ledger.has_lost_power:
            raise BrokenPromise(
                f"{self.name} sent everything in order, but {queue.ledger.name} answered: {answer.error_message}"
            )
        self._producer_id = -1
