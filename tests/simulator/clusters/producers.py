"""Producers of a cluster, which record acknowledgements in the ledger.

`PlainProducer` never retries: unacknowledged records may be in the log or not. What is acknowledged with acks=all is a
promise; with acks=1 it is none, because the leader may die before anyone else has the record. `IdempotentProducer`
resends each batch with the same sequence numbers until it is acknowledged. In the end every record is there once. Its
first batch goes alone, because a log accepts any first sequence number of a producer that it does not know (KIP-360):
if the first batch is refused and the second is not, the first is out of order for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord
from simulator.checks.ledger import Ledger, PartitionLedger, make_value
from simulator.cluster import SimulatedCluster
from simulator.clusters.client import NO_LEADER, ClusterClient, NoAnswer, TopicView
from simulator.world import BrokenPromise

ACKS_ALL, ACKS_LEADER = -1, 1
TIMEOUT_MS = 3_000
PAUSE_S_MAX = 0.3
IN_FLIGHT_MAX = 5  # the limit of an idempotent producer
LARGE_BYTES = 12_000
LOOKS_PER_VIEW = 20  # sends until metadata is refreshed, if nothing fails

IsOver = Callable[[], bool]


def make_batch(
    client: ClusterClient,
    values: Sequence[bytes],
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    timestamp = 1_700_000_000_000 + round(client.cluster.loop.time() * 1000)
    return bytes(
        kernel.build_batch(
            [NewRecord(timestamp, None, value) for value in values],
            compression=client.random.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def make_request(topic_id: Uuid, index: int, batch: bytes, *, acks: int) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                topic_id=topic_id, partition_data=[PartitionProduceData(index=index, records=batch)]
            )
        ],
    )


def draw_values(client: ClusterClient, producer: str, generation: int, first_number: int) -> list[bytes]:
    """One to three consecutive records."""
    rng = client.random
    padding = LARGE_BYTES if rng.random() < 0.02 else rng.randint(0, 100)
    count = rng.choice((1, 1, 2, 3))
    return [make_value(producer, generation, first_number + i, padding) for i in range(count)]


class PlainProducer(ClusterClient):
    def __init__(
        self, cluster: SimulatedCluster, name: str, topic: str, ledger: Ledger, is_over: IsOver, *, acks: int
    ) -> None:
        super().__init__(cluster, name)
        self.topic = topic
        self.ledger = ledger
        self.acks = acks
        self._is_over = is_over
        self._number = 0
        self._incarnation = 0
        """A request without a response may be served after later ones, so order is promised within an incarnation."""

    async def run(self) -> None:
        while not self._is_over():
            try:
                view = await self.find_topic(self.topic)
                for _ in range(LOOKS_PER_VIEW):
                    if view is None or self._is_over() or not await self._send_some(view):
                        break
                    await self.pause(PAUSE_S_MAX)
            except NoAnswer:
                self._incarnation += 1
            await self.pause(PAUSE_S_MAX)

    async def check_writable(self, index: int) -> bool:
        """Write to this partition when all faults are over. False: try again."""
        view = await self.find_topic(self.topic)
        return view is not None and await self._send(view, index, count=1)

    async def _send_some(self, view: TopicView) -> bool:
        return await self._send(
            view, self.random.randrange(len(view.leaders)), count=self.random.randint(1, 3)
        )

    async def _send(self, view: TopicView, index: int, *, count: int) -> bool:
        """Send some requests at once. False if any failed: metadata may be old."""
        leader, _ = view.leaders[index]
        if leader == NO_LEADER:
            return False
        ledger = self.ledger.get(self.topic, view.topic_id, index)
        sent = []
        for _ in range(count):
            values = draw_values(self, f"{self.name}-{self._incarnation}", 0, self._number)
            self._number += len(values)
            ledger.sent.update(values)
            request = make_request(view.topic_id, index, make_batch(self, values), acks=self.acks)
            sent.append((await self.send(leader, request), values))
        is_fine = True
        for future, values in sent:
            response = await self.answer(leader, future)
            (answer,) = response.responses[0].partition_responses
            if answer.error_code != ErrorCode.NONE:
                if not answer.error_code.is_retriable:
                    raise BrokenPromise(
                        f"{ledger.name} rejected records of {self.name}: {answer.error_code.name}"
                        f" {answer.error_message}"
                    )
                is_fine = False
            elif self.acks == ACKS_ALL:
                ledger.acknowledged(answer.base_offset, values)
        self._incarnation += not is_fine
        return is_fine


@dataclass(slots=True)
class _Batch:
    values: list[bytes]
    data: bytes


@dataclass(slots=True)
class _PartitionQueue:
    index: int
    ledger: PartitionLedger
    sequence: int = 0
    unacknowledged: list[_Batch] = field(default_factory=list)
    is_introduced: bool = False
    """Whether a batch was acknowledged, so that the log knows the producer id."""


class IdempotentProducer(ClusterClient):
    """Writes with acks=all to every partition that its topic had at the start. The topic must not be deleted."""

    def __init__(
        self, cluster: SimulatedCluster, name: str, topic: str, ledger: Ledger, is_over: IsOver
    ) -> None:
        super().__init__(cluster, name)
        self.topic = topic
        self.ledger = ledger
        self._is_over = is_over
        self._in_flight_max = self.random.choice((1, 2, IN_FLIGHT_MAX))
        self._number = 0
        self._producer_id = -1
        self._last_error = ErrorCode.NONE
        self._queues: list[_PartitionQueue] = []

    async def run(self) -> None:
        while not self.has_finished():
            try:
                if self._producer_id < 0:
                    await self._get_producer_id()
                view = await self.find_topic(self.topic)
                if view is not None and self._producer_id >= 0:
                    self._use(view)
                    for _ in range(LOOKS_PER_VIEW):
                        if not await self._send_queue(view, self._choose_queue()):
                            break
                        if self.has_finished():
                            return
                        await self.pause(PAUSE_S_MAX)
            except NoAnswer:
                pass
            await self.pause(PAUSE_S_MAX)

    def has_finished(self) -> bool:
        return self._is_over() and not any(queue.unacknowledged for queue in self._queues)

    def describe(self) -> str:
        """What it waits for."""
        waiting = [str(queue.ledger.name) for queue in self._queues if queue.unacknowledged]
        return f"{self.name} (last error {self._last_error.name}) waits for {waiting or 'a producer id'}"

    def _choose_queue(self) -> _PartitionQueue:
        waiting = [queue for queue in self._queues if queue.unacknowledged]
        return self.random.choice(waiting if waiting and self._is_over() else self._queues)

    def _use(self, view: TopicView) -> None:
        if not self._queues:
            self._queues = [
                _PartitionQueue(index, self.ledger.get(self.topic, view.topic_id, index))
                for index in range(len(view.leaders))
            ]

    async def _get_producer_id(self) -> None:
        response = await self.ask_any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
        if response.error_code == ErrorCode.NONE:
            self.ledger.producer_id_given(response.producer_id)
            self._producer_id = response.producer_id
        elif not response.error_code.is_retriable:
            raise BrokenPromise(f"{self.name} got no producer id: {response.error_code.name}")

    async def _send_queue(self, view: TopicView, queue: _PartitionQueue) -> bool:
        """Send everything that is not acknowledged, and perhaps new records. False if anything failed."""
        leader, _ = view.leaders[queue.index]
        if leader == NO_LEADER:
            return False
        if not self._is_over():
            in_flight_max = self._in_flight_max if queue.is_introduced else 1
            for _ in range(self.random.randint(0, in_flight_max - len(queue.unacknowledged))):
                self._add(queue)
        sent = []
        for batch in queue.unacknowledged:
            request = make_request(view.topic_id, queue.index, batch.data, acks=ACKS_ALL)
            sent.append((batch, await self.send(leader, request)))
        is_fine = True
        for batch, future in sent:
            response = await self.answer(leader, future)
            (answer,) = response.responses[0].partition_responses
            error = answer.error_code
            if error == ErrorCode.NONE:
                queue.ledger.acknowledged(answer.base_offset, batch.values)
                queue.unacknowledged.remove(batch)
                queue.is_introduced = True
            elif error.is_retriable or error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                # A leader that was replaced and has not noticed lacks the batches that its successor has.
                is_fine, self._last_error = False, error
            else:
                raise BrokenPromise(
                    f"{queue.ledger.name} rejected records of {self.name}: {error.name} {answer.error_message}"
                )
        return is_fine

    def _add(self, queue: _PartitionQueue) -> None:
        values = draw_values(self, self.name, 0, self._number)
        self._number += len(values)
        data = make_batch(self, values, producer_id=self._producer_id, epoch=0, sequence=queue.sequence)
        queue.sequence += len(values)
        queue.ledger.sent.update(values)
        queue.unacknowledged.append(_Batch(values, data))
