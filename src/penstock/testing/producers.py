"""Clients that write, and note in the ledger what they were promised.

`PlainProducer` sends and never asks twice: what was not acknowledged is written off, and may be in the log or not.
`IdempotentProducer` keeps up to five batches in flight and sends each again until it is acknowledged, with the same
sequence numbers, as real clients do; in the end every record is in the log, once.
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
from penstock.testing.client import LostConnection, SimulatedClient
from penstock.testing.ledger import Ledger, PartitionLedger, make_value
from penstock.testing.simulation import BrokenPromise, Simulation

TIMEOUT_MS = 30_000
PAUSE_S_MAX = 0.2
IN_FLIGHT_MAX = 5  # as many as an idempotent producer may have
LARGE_BYTES = 12_000  # now and then, so that indexes get entries and frames arrive in pieces

GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
STOPPING = (ErrorCode.NOT_LEADER_OR_FOLLOWER,)


@dataclass(slots=True)
class Weather:
    """What a client may be refused for reasons that are not its own, and whether it is time to go home."""

    is_over: Callable[[], bool]
    is_disk_ailing: Callable[[], bool]
    """Whether some directory may be offline."""


class _Producer(SimulatedClient):
    def __init__(
        self, simulation: Simulation, name: str, topic: str, ledger: Ledger, weather: Weather, *, acks: int
    ) -> None:
        super().__init__(simulation, name)
        self.topic = topic
        self.ledger = ledger
        self.weather = weather
        self.acks = acks

    def make_values(self, generation: int, first_number: int) -> list[bytes]:
        """One to three records that follow one another."""
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
        """An error that has no reason in what happened to the node is a promise broken."""
        error = answer.error_code
        if error in STOPPING or error in also:
            return
        if error == ErrorCode.KAFKA_STORAGE_ERROR and self.weather.is_disk_ailing():
            return
        raise BrokenPromise(
            f"{self.name} was refused by {self.topic}-{answer.index}: {error.name} {answer.error_message}"
        )

    async def pause(self) -> None:
        await asyncio.sleep(self.random.uniform(0, PAUSE_S_MAX))


class PlainProducer(_Producer):
    """Several requests at once, each to several partitions, with acks=0, 1 or all; the topic may go away."""

    def __init__(
        self, simulation: Simulation, name: str, topic: str, ledger: Ledger, weather: Weather, *, acks: int
    ) -> None:
        super().__init__(simulation, name, topic, ledger, weather, acks=acks)
        self._number = 0
        """The next that is free."""

    async def run(self) -> None:
        while not self.weather.is_over():
            try:
                found = await self.find_topic(self.topic)
                while found is not None and not self.weather.is_over():
                    is_gone = await self._send_some(*found)
                    await self.pause()
                    if is_gone:
                        break
                await self.pause()
            except LostConnection:
                continue

    async def write_in_peace(self) -> None:
        """Send a little to a topic that is there, when there is no reason any more not to acknowledge it."""
        found = await self.find_topic(self.topic)
        count = self.ledger.acknowledged_count()
        if found is None or await self._send_some(*found) or self.ledger.acknowledged_count() == count:
            raise BrokenPromise(
                f"{self.name} can not write to {self.topic}, though nothing goes wrong any more"
            )

    async def _send_some(self, topic_id: Uuid, partition_count: int) -> bool:
        """Whether the topic is gone."""
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
        is_gone = False
        for request, future, values in sent:
            response = await self.answer(request, future)
            for answer in response.responses[0].partition_responses:
                if answer.error_code == ErrorCode.NONE:
                    self._ledger_of(topic_id, answer.index).acknowledged(
                        answer.base_offset, values[answer.index]
                    )
                else:
                    self.check_refusal(answer, also=GONE)
                    is_gone |= answer.error_code in GONE
        return is_gone

    def _ledger_of(self, topic_id: Uuid, index: int) -> PartitionLedger:
        return self.ledger.get(self.topic, topic_id, index)


@dataclass(slots=True)
class _Batch:
    values: list[bytes]
    data: bytes


@dataclass(slots=True)
class _Lane:
    """One partition, as an idempotent producer sees it."""

    index: int
    ledger: PartitionLedger
    sequence: int = 0
    unacknowledged: list[_Batch] = field(default_factory=list)


class IdempotentProducer(_Producer):
    """To every partition that its topic had when it came; the topic must stay."""

    def __init__(
        self, simulation: Simulation, name: str, topic: str, ledger: Ledger, weather: Weather
    ) -> None:
        super().__init__(simulation, name, topic, ledger, weather, acks=-1)
        self._in_flight_max = self.random.choice((1, 2, IN_FLIGHT_MAX))
        self._number = 0
        self._generation = 0
        self._producer_id = -1
        self._topic_id: Uuid
        self._lanes: list[_Lane] = []

    async def run(self) -> None:
        while not self.weather.is_over() or self._is_owing():
            try:
                if not self._lanes:
                    await self._find_lanes()
                if self._producer_id < 0:
                    await self._begin()
                elif self.random.random() < 0.05:
                    await self._get_producer_id()  # one too many, but not one that anybody has
                if self._lanes and self._producer_id >= 0:
                    await self.connect()
                    await self._send_lane(self.random.choice(self._lanes))
                await self.pause()
            except LostConnection:
                continue

    def _is_owing(self) -> bool:
        return any(lane.unacknowledged for lane in self._lanes)

    async def _find_lanes(self) -> None:
        found = await self.find_topic(self.topic)
        if found is None:
            return
        self._topic_id, partition_count = found
        self._lanes = [
            _Lane(index, self.ledger.get(self.topic, self._topic_id, index))
            for index in range(partition_count)
        ]

    async def _begin(self) -> None:
        """Get an id, and send what is still owed under it."""
        producer_id = await self._get_producer_id()
        if producer_id is None:
            return
        self._producer_id = producer_id
        self._generation += 1
        for lane in self._lanes:
            owed = [value for batch in lane.unacknowledged for value in batch.values]
            lane.sequence, lane.unacknowledged = 0, []
            if owed:
                numbers = [int(value.split(b"/", 3)[2]) for value in owed]
                self._add(lane, [make_value(self.name, self._generation, number, 0) for number in numbers])

    async def _get_producer_id(self) -> int | None:
        """A new id; None where there is none to be had for now."""
        response = await self.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
        if response.error_code == ErrorCode.NONE:
            self.ledger.producer_id_given(response.producer_id)
            return int(response.producer_id)
        if not response.error_code.is_retriable:
            raise BrokenPromise(f"{self.name} gets no producer id: {response.error_code.name}")
        return None

    def _add(self, lane: _Lane, values: list[bytes]) -> None:
        data = self.make_batch(values, producer_id=self._producer_id, epoch=0, sequence=lane.sequence)
        lane.sequence += len(values)
        lane.ledger.sent.update(values)
        lane.unacknowledged.append(_Batch(values, data))

    async def _send_lane(self, lane: _Lane) -> None:
        if not self.weather.is_over():
            for _ in range(self.random.randint(0, self._in_flight_max - len(lane.unacknowledged))):
                values = self.make_values(self._generation, self._number)
                self._number += len(values)
                self._add(lane, values)
        sent = []
        for batch in lane.unacknowledged:
            request = self.make_request(self._topic_id, {lane.index: batch.data})
            sent.append((batch, request, self.send(request)))
        has_failed = False
        for batch, request, future in sent:
            response = await self.answer(request, future)
            (answer,) = response.responses[0].partition_responses
            if answer.error_code == ErrorCode.NONE:
                lane.ledger.acknowledged(answer.base_offset, batch.values)
                lane.unacknowledged.remove(batch)
            elif answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not has_failed:
                self._start_anew(lane, answer)
                return
            else:
                self.check_refusal(
                    answer, also=(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,) if has_failed else ()
                )
                has_failed = True

    def _start_anew(self, lane: _Lane, answer: PartitionProduceResponse) -> None:
        """The log lost what it had acknowledged, as it may without flush.messages=1: only a new id helps."""
        if lane.ledger.is_durable or not lane.ledger.has_lost_power:
            raise BrokenPromise(
                f"{self.name} sent everything in order, but {lane.ledger.name} says: {answer.error_message}"
            )
        self._producer_id = -1
