"""A transactional producer as the wire sees it, in both forms: transactions version 1 and 2 (KIP-890).

It asks again until it is answered, with the same sequence numbers, as real clients do, and notes in the history what it
wrote and how it ended. It can vanish at any await: what it had noted until then is true. With version 1 partitions and
groups are added before they are written to, and the epoch stays; with version 2 they are added by being written to, and
every end gives the next epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord
from penstock.testing.client import ANSWER_S_MAX, LostConnection, SimulatedClient
from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.history import Outcome, Partition, Transaction, Write
from penstock.testing.transactions.identity import Attempt, Identity
from penstock.testing.transactions.stage import (
    FENCED,
    NOT_YET,
    NOT_YET_PERHAPS_DONE,
    TOPICS,
    Fenced,
    MustAbort,
    Stage,
)

PRODUCE_TIMEOUT_MS = 30_000
BACKOFF_S = 0.1
TRANSACTION_KEY_TYPE = 1

INIT_VERSION, INIT_TWO_PHASE_VERSION = 5, 6
ADD_PARTITIONS_VERSION = 3  # later ones are for brokers
PRODUCE_VERSION_1, PRODUCE_VERSIONS_2 = 11, (12, 13)
END_VERSION_1, END_VERSION_2 = 4, 5

IN_FLIGHT_MAX = 5  # so many batches of a producer a partition knows again
HASTE_S_MAX = 0.03  # of two that are sent at nearly the same time either may come first
LATE_S_MAX = 1.0  # so long a request may be under way that its sender believes lost


@dataclass(slots=True, eq=False)
class _Batch:
    writes: list[Write]
    data: bytes


@dataclass(slots=True)
class _Lane:
    """One partition, as the producer sees it in its present epoch."""

    sequence: int = 0
    is_added: bool = False
    """The coordinator knows that the transaction writes here."""
    unacknowledged: list[_Batch] = field(default_factory=list)


class TransactionalClient(SimulatedClient):
    HAS_TWO_PHASES = False

    def __init__(
        self, stage: Stage, identity: Identity, name: str, *, is_version_2: bool, timeout_ms: int
    ) -> None:
        super().__init__(stage.simulation, name)
        self.stage = stage
        self.identity = identity
        self.is_version_2 = is_version_2
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.transaction: Transaction | None = None
        self.topics: dict[str, tuple[Uuid, int]] = {}
        """Ids and numbers of partitions."""
        self._held: Attempt
        """How it came by its producer id and epoch."""
        self._lanes: dict[Partition, _Lane] = {}
        self._transactions = 0
        self._writes = 0
        self._is_started = False
        """Something was sent that the coordinator may have heard of."""
        self._is_heard_of = False
        """Something of it was accepted."""
        self._started_wall_ms = 0
        self._skew_ms = 0
        self._coordinator_found_on = 0
        self.insists = False
        """Whether it goes on when it is told that it is fenced."""
        self.is_fenced = False
        """It was told so, and goes on all the same."""

    # Coming to life

    async def init(self, *, recovers: bool = False, keeps_prepared: bool = False) -> InitProducerIdResponse:
        """Get a producer id and epoch; `recovers` from a failure with the present ones (KIP-360)."""
        two_phase = {"enable_2pc": True, "keep_prepared_txn": keeps_prepared} if self.HAS_TWO_PHASES else {}
        request = InitProducerIdRequest(
            transactional_id=self.identity.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer_id if recovers else -1,
            producer_epoch=self.epoch if recovers else -1,
            **two_phase,
        )
        version = INIT_TWO_PHASE_VERSION if self.HAS_TWO_PHASES else INIT_VERSION
        while True:
            attempt: Attempt | None = None
            try:
                await self.find_coordinator()
                attempt = self.identity.asked(self.name, now=self.now)
                response: InitProducerIdResponse = await self.ask(request, version=version)
            except BaseException as error:
                if attempt is not None:
                    self.identity.given_up(attempt, now=self.now)
                if isinstance(error, LostConnection):
                    continue
                raise
            if response.error_code == ErrorCode.NONE:
                break
            attempt.done_at = self.now
            if recovers and response.error_code in FENCED:
                self._check_excuse("InitProducerId", response.error_code)
                raise Fenced
            await self.back_off("InitProducerId", response.error_code)
        self._held = attempt
        self.stage.producer_id_given(response.producer_id, self.identity.transactional_id)
        self.identity.granted(attempt, response.producer_id, response.producer_epoch, now=self.now)
        self._take_epoch(response.producer_id, response.producer_epoch)
        return response

    async def find_coordinator(self) -> None:
        await self.connect()
        while self._coordinator_found_on != self.connections:
            request = FindCoordinatorRequest(
                key_type=TRANSACTION_KEY_TYPE, coordinator_keys=[self.identity.transactional_id]
            )
            (found,) = (await self.ask(request)).coordinators
            if found.error_code == ErrorCode.NONE:
                self._coordinator_found_on = self.connections
            else:
                await self.back_off("FindCoordinator", found.error_code)

    async def look_for_topics(self) -> None:
        while True:
            try:
                for topic in TOPICS:
                    found = await self.find_topic(topic)
                    if found is not None:
                        self.topics[topic] = found
                return
            except LostConnection:
                continue

    def partitions_of(self, *topics: str) -> list[Partition]:
        return [
            (topic, index)
            for topic in topics
            if topic in self.topics
            for index in range(self.topics[topic][1])
        ]

    # A transaction

    def begin(self) -> Transaction:
        self._transactions += 1
        self.transaction = self.stage.history.begin(f"{self.name}/{self._transactions}")
        self._is_started = self._is_heard_of = False
        self._skew_ms = self.simulation.clock.skew_ms
        for lane in self._lanes.values():
            lane.is_added = False
        return self.transaction

    def add_batch(self, partition: Partition, count: int) -> None:
        """Have records to be sent by the next `flush`."""
        assert self.transaction is not None
        writes = []
        for _ in range(count):
            self._writes += 1
            padding = "." * self.random.randint(0, 60)
            writes.append(Write(partition, f"{self.transaction.name}/{self._writes}/{padding}".encode()))
        self.transaction.writes += writes
        lane = self._lanes.setdefault(partition, _Lane())
        now_ms = self.simulation.clock.wall_ms()
        data = kernel.build_batch(
            [NewRecord(now_ms, None, write.value) for write in writes],
            compression=self.random.choice(list(Compression)),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=lane.sequence,
            is_transactional=True,
        )
        lane.sequence += count
        lane.unacknowledged.append(_Batch(writes, bytes(data)))

    async def flush(self) -> None:
        """Return when all that was added is acknowledged."""
        while owing := [partition for partition, lane in self._lanes.items() if lane.unacknowledged]:
            try:
                await self.connect()
                if not self.is_version_2:
                    await self._add_partitions([each for each in owing if not self._lanes[each].is_added])
                await self._send_lanes(owing)
            except LostConnection:
                continue

    async def _add_partitions(self, partitions: Sequence[Partition]) -> None:
        if not partitions:
            return
        indexes: dict[str, list[int]] = {}
        for topic, index in partitions:
            indexes.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.identity.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=each) for topic, each in indexes.items()
            ],
        )
        while True:
            await self.find_coordinator()
            self._start()
            response = await self.ask(request, version=ADD_PARTITIONS_VERSION)
            results = [
                result.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ]
            worst = next((error for error in results if error != ErrorCode.NONE), ErrorCode.NONE)
            if worst == ErrorCode.NONE:
                break
            await self.refused("AddPartitionsToTxn", worst)
        self.accepted("AddPartitionsToTxn")
        for partition in partitions:
            self._lanes[partition].is_added = True

    async def _send_lanes(self, partitions: Sequence[Partition]) -> None:
        """The first batch of every lane in one request, the second ones in the next, all under way at once."""
        self._start()
        sent: list[tuple[ProduceRequest, asyncio.Future[Any], dict[Partition, _Batch]]] = []
        version = self.random.choice(PRODUCE_VERSIONS_2) if self.is_version_2 else PRODUCE_VERSION_1
        depth = max(len(self._lanes[partition].unacknowledged) for partition in partitions)
        depth = min(depth, IN_FLIGHT_MAX)
        for at in range(depth):
            batches = {
                partition: self._lanes[partition].unacknowledged[at]
                for partition in partitions
                if len(self._lanes[partition].unacknowledged) > at
            }
            request = self._make_produce({partition: batch.data for partition, batch in batches.items()})
            sent.append((request, self.send(request, version=version), batches))
        sent_at = self.sent_at
        failed: dict[Partition, ErrorCode] = {}
        for request, future, batches in sent:
            response = await self.answer(request, future)
            answers = {
                (self._topic_name(topic.name, topic.topic_id), answer.index): answer
                for topic in response.responses
                for answer in topic.partition_responses
            }
            if answers.keys() != batches.keys():
                raise BrokenPromise(
                    f"{self.name} wrote to {list(batches)}, and is answered for {list(answers)}"
                )
            for partition, batch in batches.items():
                self._look_at(partition, batch, answers[partition], failed, sent_at=sent_at)
        if failed:
            await self.refused("Produce", max(failed.values(), key=_gravity))

    def _look_at(
        self,
        partition: Partition,
        batch: _Batch,
        answer: PartitionProduceResponse,
        failed: dict[Partition, ErrorCode],
        *,
        sent_at: float,
    ) -> None:
        error = answer.error_code
        if error == ErrorCode.NONE:
            if partition in failed:
                raise BrokenPromise(f"{self.name}: {partition} took a batch, but not the one before it")
            self.accepted("Produce", sent_at=sent_at)
            for at, write in enumerate(batch.writes, answer.base_offset):
                write.offset = at
            self._lanes[partition].unacknowledged.remove(batch)
            self._lanes[partition].is_added = True
        elif partition not in failed:
            self.note(f"is refused by {partition[0]}-{partition[1]}: {error.name} {answer.error_message}")
            failed[partition] = error

    def _make_produce(self, batches: Mapping[Partition, bytes]) -> ProduceRequest:
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for (topic, index), data in batches.items():
            by_topic.setdefault(topic, []).append(PartitionProduceData(index=index, records=data))
        return ProduceRequest(
            transactional_id=self.identity.transactional_id,
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(name=topic, topic_id=self.topics[topic][0], partition_data=each)
                for topic, each in by_topic.items()
            ],
        )

    def _topic_name(self, name: str, topic_id: Uuid) -> str:
        return name or next(topic for topic, found in self.topics.items() if found[0] == topic_id)

    def drop_unacknowledged(self) -> None:
        """Forget what may have been written or not, and go on with the sequences after it."""
        for lane in self._lanes.values():
            lane.unacknowledged.clear()

    def straggle(self) -> None:
        """What is not acknowledged is lost for its sender, and arrives all the same, some time later."""
        batches = {
            partition: lane.unacknowledged[0].data
            for partition, lane in self._lanes.items()
            if lane.unacknowledged
        }
        if batches:
            version = PRODUCE_VERSIONS_2[-1] if self.is_version_2 else PRODUCE_VERSION_1
            self.note(f"sends to {list(batches)} over a slow path")
            if self.is_version_2:
                self._start()
            self.stage.start(f"{self.name} late", _arrive_late(self, self._make_produce(batches), version))

    # Its end

    async def end(self, *, commits: bool) -> None:
        """Commit or abort; return when that is acknowledged."""
        transaction, self.transaction = self.transaction, None
        assert transaction is not None
        is_resolved = not any(lane.unacknowledged for lane in self._lanes.values())
        assert is_resolved or not commits, "a client commits what is acknowledged"
        if self._is_started:
            await self.end_started(transaction, commits=commits)
        else:
            transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        if not is_resolved and (not self.is_version_2 or not self._is_started):
            await self.init(recovers=True)  # what may be under way must not come into the next one

    async def end_started(self, transaction: Transaction, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.identity.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        version = END_VERSION_2 if self.is_version_2 else END_VERSION_1
        is_doubtful = transaction.outcome is Outcome.UNKNOWN
        if not commits and not is_doubtful:
            transaction.outcome = Outcome.ABORTED  # whatever becomes of it now
        while True:
            try:
                await self.find_coordinator()
                if commits:
                    transaction.commit_asked_at = min(transaction.commit_asked_at, self.now)
                    transaction.outcome = Outcome.UNKNOWN
                response: EndTxnResponse = await self.ask(request, version=version)
            except LostConnection:
                is_doubtful = True
                continue
            error = response.error_code
            if error == ErrorCode.NONE:
                break
            is_doubtful |= error in NOT_YET_PERHAPS_DONE or self.stage.is_storage_ailing(error)
            if not is_doubtful:
                transaction.outcome = Outcome.ABORTED  # unless it is asked for once more
            await self.refused("EndTxn", error)
        self.accepted("EndTxn")
        transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        if self.is_version_2:
            if response.producer_id == self.producer_id and response.producer_epoch <= self.epoch:
                raise BrokenPromise(
                    f"{self.name} ended epoch {self.epoch}, and is told to go on with {response.producer_epoch}"
                )
            self.stage.producer_id_given(response.producer_id, self.identity.transactional_id)
            self.identity.told_epoch(response.producer_id, response.producer_epoch)
            self._take_epoch(response.producer_id, response.producer_epoch)

    # Answers

    async def ask(self, request: Any, *, version: int | None = None, within_s: float = ANSWER_S_MAX) -> Any:
        response = await super().ask(request, version=version, within_s=within_s)
        error = getattr(response, "error_code", ErrorCode.NONE)
        self.note(f"({self.producer_id}/{self.epoch}): {type(request).__name__} is answered, {error.name}")
        return response

    def accepted(self, what: str, *, sent_at: float | None = None) -> None:
        self._is_heard_of = True
        self.identity.check_accepted(self._held, what, sent_at=self.sent_at if sent_at is None else sent_at)

    async def refused(self, what: str, error: ErrorCode) -> None:
        """Return after a while where it is to be tried again."""
        if error in FENCED:
            self._check_excuse(what, error)
            raise Fenced
        if self.is_fenced and error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise MustAbort
        if error == ErrorCode.TRANSACTION_ABORTABLE:
            self._check_excuse(what, error)
            raise MustAbort
        await self.back_off(what, error)

    async def back_off(self, what: str, error: ErrorCode) -> None:
        if error not in NOT_YET and not self.stage.is_storage_ailing(error):
            raise BrokenPromise(f"{self.name}: {what} is refused: {error.name}")
        self._coordinator_found_on = -1
        await asyncio.sleep(self.random.uniform(0, BACKOFF_S))

    def _check_excuse(self, what: str, error: ErrorCode) -> None:
        """Nobody is fenced but by another who took its place, or because it took too long."""
        # Whoever ends a transaction of which nobody has heard, while the one before is still being ended everywhere, is
        # told that it is fenced, as by Kafka.
        is_too_early = what == "EndTxn" and not self._is_heard_of
        if is_too_early:
            self.insists = False  # it may not be fenced at all, and then nothing of it would be refused
            return
        if not (self.is_fenced or self.identity.may_be_fenced(self._held) or self._is_overdue()):
            raise BrokenPromise(f"{self.name}: {what} is refused without a reason: {error.name}")

    def _is_overdue(self) -> bool:
        """Whether the coordinator may have aborted the transaction. Its clock jumps where the node starts anew."""
        if self.HAS_TWO_PHASES or not self._is_started:
            return False
        elapsed_ms = self.simulation.clock.wall_ms() - self._started_wall_ms
        return elapsed_ms >= self.timeout_ms or self.simulation.clock.skew_ms != self._skew_ms

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._started_wall_ms = self.simulation.clock.wall_ms()

    def _take_epoch(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._lanes.clear()

    @property
    def now(self) -> float:
        return self.simulation.loop.time()

    def note(self, words: str) -> None:
        self.simulation.trace.note(f"{self.name} {words}")


def _gravity(error: ErrorCode) -> int:
    """Of several errors the one counts that leaves the least to do."""
    return 2 if error in FENCED else 1 if error == ErrorCode.TRANSACTION_ABORTABLE else 0


async def _arrive_late(sender: TransactionalClient, request: ProduceRequest, version: int) -> None:
    courier = SimulatedClient(sender.simulation, f"{sender.name}-late-{sender.simulation.loop.time():.6f}")
    await asyncio.sleep(courier.random.uniform(0, courier.random.choice((HASTE_S_MAX, LATE_S_MAX))))
    try:
        response = await courier.ask(request, version=version)
    except LostConnection:
        return
    errors = [answer.error_code.name for topic in response.responses for answer in topic.partition_responses]
    courier.simulation.trace.note(f"{courier.name} is answered with {errors}")
    courier.hang_up()
