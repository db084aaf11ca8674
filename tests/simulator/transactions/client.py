"""A transactional producer on the wire, for transaction versions 1 and 2 (KIP-890).

Like real clients it retries with the same sequence numbers. It records in the history what it wrote and how it ended.
It can crash at any await; its records until then are true. With version 1, partitions and groups are added before they
are written to, and the epoch stays the same. With version 2, writing adds them, and every end returns the next epoch.
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
from simulator.clients.client import ANSWER_S_MAX, LostConnection, SimulatedClient
from simulator.simulation import BrokenPromise
from simulator.transactions.history import Outcome, Partition, Transaction, Write
from simulator.transactions.identity import Attempt, Identity
from simulator.transactions.shared import (
    FENCED,
    RETRIABLE,
    RETRIABLE_WITH_UNKNOWN_OUTCOME,
    TOPICS,
    Fenced,
    MustAbort,
    SharedState,
)

PRODUCE_TIMEOUT_MS = 30_000
BACKOFF_S = 0.1
TRANSACTION_KEY_TYPE = 1

INIT_VERSION, INIT_TWO_PHASE_VERSION = 5, 6
ADD_PARTITIONS_VERSION = 3  # later versions are for brokers
PRODUCE_VERSION_1, PRODUCE_VERSIONS_2 = 11, (12, 13)
END_VERSION_1, END_VERSION_2 = 4, 5

IN_FLIGHT_MAX = 5  # how many batches of a producer a partition remembers
HASTE_S_MAX = 0.03  # of two requests sent this close together, either may arrive first
LATE_S_MAX = 1.0  # how long a request may be in flight after its sender considers it lost


@dataclass(slots=True, eq=False)
class _Batch:
    writes: list[Write]
    data: bytes


@dataclass(slots=True)
class _PartitionQueue:
    """One partition, in the producer's current epoch."""

    sequence: int = 0
    is_added: bool = False
    """The coordinator knows that the transaction writes here."""
    unacknowledged: list[_Batch] = field(default_factory=list)


class TransactionalClient(SimulatedClient):
    HAS_TWO_PHASES = False

    def __init__(
        self, shared: SharedState, identity: Identity, name: str, *, is_version_2: bool, timeout_ms: int
    ) -> None:
        super().__init__(shared.simulation, name)
        self.shared = shared
        self.identity = identity
        self.is_version_2 = is_version_2
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.transaction: Transaction | None = None
        self.topics: dict[str, tuple[Uuid, int]] = {}
        """Topic ids and partition counts."""
        self._held: Attempt
        """The attempt that got its producer id and epoch."""
        self._queues: dict[Partition, _PartitionQueue] = {}
        self._transactions = 0
        self._writes = 0
        self._is_started = False
        """A request was sent that the coordinator may have received."""
        self._was_accepted = False
        """A request of the transaction was accepted."""
        self._started_wall_ms = 0
        self._skew_ms = 0
        self._coordinator_found_on = 0
        self.ignores_fencing = False
        """Whether it continues after it was fenced."""
        self.is_fenced = False
        """It was fenced, and continues."""

    # Initialization

    async def init(self, *, recovers: bool = False, keeps_prepared: bool = False) -> InitProducerIdResponse:
        """Get a producer id and epoch. `recovers`: after an error, with the current ones (KIP-360)."""
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
                self._check_fencing_reason("InitProducerId", response.error_code)
                raise Fenced
            await self.back_off("InitProducerId", response.error_code)
        self._held = attempt
        self.shared.producer_id_given(response.producer_id, self.identity.transactional_id)
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
        self.transaction = self.shared.history.begin(f"{self.name}/{self._transactions}")
        self._is_started = self._was_accepted = False
        self._skew_ms = self.simulation.clock.skew_ms
        for queue in self._queues.values():
            queue.is_added = False
        return self.transaction

    def add_batch(self, partition: Partition, count: int) -> None:
        """Add records, to be sent by the next `flush`."""
        assert self.transaction is not None
        writes = []
        for _ in range(count):
            self._writes += 1
            padding = "." * self.random.randint(0, 60)
            writes.append(Write(partition, f"{self.transaction.name}/{self._writes}/{padding}".encode()))
        self.transaction.writes += writes
        queue = self._queues.setdefault(partition, _PartitionQueue())
        now_ms = self.simulation.clock.wall_ms()
        data = kernel.build_batch(
            [NewRecord(now_ms, None, write.value) for write in writes],
            compression=self.random.choice(list(Compression)),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=queue.sequence,
            is_transactional=True,
        )
        queue.sequence += count
        queue.unacknowledged.append(_Batch(writes, bytes(data)))

    async def flush(self) -> None:
        """Return when all added records are acknowledged."""
        while unacknowledged := [
            partition for partition, queue in self._queues.items() if queue.unacknowledged
        ]:
            try:
                await self.connect()
                if not self.is_version_2:
                    await self._add_partitions(
                        [each for each in unacknowledged if not self._queues[each].is_added]
                    )
                await self._send_queues(unacknowledged)
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
            self._queues[partition].is_added = True

    async def _send_queues(self, partitions: Sequence[Partition]) -> None:
        """Send the first batch of every queue in one request, the second ones in the next, all in flight at once."""
        self._start()
        sent: list[tuple[ProduceRequest, asyncio.Future[Any], dict[Partition, _Batch]]] = []
        version = self.random.choice(PRODUCE_VERSIONS_2) if self.is_version_2 else PRODUCE_VERSION_1
        depth = max(len(self._queues[partition].unacknowledged) for partition in partitions)
        depth = min(depth, IN_FLIGHT_MAX)
        for at in range(depth):
            batches = {
                partition: self._queues[partition].unacknowledged[at]
                for partition in partitions
                if len(self._queues[partition].unacknowledged) > at
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
                    f"{self.name} wrote to {list(batches)}, but the response has {list(answers)}"
                )
            for partition, batch in batches.items():
                self._handle_answer(partition, batch, answers[partition], failed, sent_at=sent_at)
        if failed:
            await self.refused("Produce", max(failed.values(), key=_severity))

    def _handle_answer(
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
                raise BrokenPromise(f"{self.name}: {partition} accepted a batch, but not the one before it")
            self.accepted("Produce", sent_at=sent_at)
            for at, write in enumerate(batch.writes, answer.base_offset):
                write.offset = at
            self._queues[partition].unacknowledged.remove(batch)
            self._queues[partition].is_added = True
        elif partition not in failed:
            self.note(f"is rejected by {partition[0]}-{partition[1]}: {error.name} {answer.error_message}")
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
        """Drop batches with unknown outcome, and continue with the next sequence numbers."""
        for queue in self._queues.values():
            queue.unacknowledged.clear()

    def send_late(self) -> None:
        """Unacknowledged batches are lost for their sender, but arrive later all the same."""
        batches = {
            partition: queue.unacknowledged[0].data
            for partition, queue in self._queues.items()
            if queue.unacknowledged
        }
        if batches:
            version = PRODUCE_VERSIONS_2[-1] if self.is_version_2 else PRODUCE_VERSION_1
            self.note(f"sends to {list(batches)} late")
            if self.is_version_2:
                self._start()
            self.shared.start(f"{self.name} late", _send_late(self, self._make_produce(batches), version))

    # Ending a transaction

    async def end(self, *, commits: bool) -> None:
        """Commit or abort; return when acknowledged."""
        transaction, self.transaction = self.transaction, None
        assert transaction is not None
        is_resolved = not any(queue.unacknowledged for queue in self._queues.values())
        assert is_resolved or not commits, "a client commits only acknowledged records"
        if self._is_started:
            await self.end_started(transaction, commits=commits)
        else:
            transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        if not is_resolved and (not self.is_version_2 or not self._is_started):
            await self.init(recovers=True)  # batches in flight must not become part of the next transaction

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
            transaction.outcome = Outcome.ABORTED  # whatever happens now
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
            is_doubtful |= error in RETRIABLE_WITH_UNKNOWN_OUTCOME or self.shared.is_storage_degraded(error)
            if not is_doubtful:
                transaction.outcome = Outcome.ABORTED  # unless the commit is retried
            await self.refused("EndTxn", error)
        self.accepted("EndTxn")
        transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        if self.is_version_2:
            if response.producer_id == self.producer_id and response.producer_epoch <= self.epoch:
                raise BrokenPromise(
                    f"{self.name} ended epoch {self.epoch}, but got {response.producer_epoch} as the next one"
                )
            self.shared.producer_id_given(response.producer_id, self.identity.transactional_id)
            self.identity.epoch_received(response.producer_id, response.producer_epoch)
            self._take_epoch(response.producer_id, response.producer_epoch)

    # Responses

    async def ask(self, request: Any, *, version: int | None = None, within_s: float = ANSWER_S_MAX) -> Any:
        response = await super().ask(request, version=version, within_s=within_s)
        error = getattr(response, "error_code", ErrorCode.NONE)
        self.note(f"({self.producer_id}/{self.epoch}): {type(request).__name__} is answered, {error.name}")
        return response

    def accepted(self, what: str, *, sent_at: float | None = None) -> None:
        self._was_accepted = True
        self.identity.check_accepted(self._held, what, sent_at=self.sent_at if sent_at is None else sent_at)

    async def refused(self, what: str, error: ErrorCode) -> None:
        """Return after a while if the request is to be retried."""
        if error in FENCED:
            self._check_fencing_reason(what, error)
            raise Fenced
        if self.is_fenced and error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise MustAbort
        if error == ErrorCode.TRANSACTION_ABORTABLE:
            self._check_fencing_reason(what, error)
            raise MustAbort
        await self.back_off(what, error)

    async def back_off(self, what: str, error: ErrorCode) -> None:
        if error not in RETRIABLE and not self.shared.is_storage_degraded(error):
            raise BrokenPromise(f"{self.name}: {what} is rejected: {error.name}")
        self._coordinator_found_on = -1
        await asyncio.sleep(self.random.uniform(0, BACKOFF_S))

    def _check_fencing_reason(self, what: str, error: ErrorCode) -> None:
        """A producer is fenced only by another that took its id, or after its timeout."""
        # Ending a transaction without any accepted request, while the previous one is still being ended, fails as
        # fenced, as in Kafka.
        is_too_early = what == "EndTxn" and not self._was_accepted
        if is_too_early:
            self.ignores_fencing = False  # it may not be fenced at all, so its requests may succeed
            return
        if not (self.is_fenced or self.identity.may_be_fenced(self._held) or self._is_overdue()):
            raise BrokenPromise(f"{self.name}: {what} is rejected without a reason: {error.name}")

    def _is_overdue(self) -> bool:
        """Whether the coordinator may have aborted the transaction. Its clock jumps when the node restarts."""
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
        self._queues.clear()

    @property
    def now(self) -> float:
        return self.simulation.loop.time()

    def note(self, message: str) -> None:
        self.simulation.trace.note(f"{self.name} {message}")


def _severity(error: ErrorCode) -> int:
    """The most severe of several errors counts."""
    return 2 if error in FENCED else 1 if error == ErrorCode.TRANSACTION_ABORTABLE else 0


async def _send_late(sender: TransactionalClient, request: ProduceRequest, version: int) -> None:
    courier = SimulatedClient(sender.simulation, f"{sender.name}-late-{sender.simulation.loop.time():.6f}")
    await asyncio.sleep(courier.random.uniform(0, courier.random.choice((HASTE_S_MAX, LATE_S_MAX))))
    try:
        response = await courier.ask(request, version=version)
    except LostConnection:
        return
    errors = [answer.error_code.name for topic in response.responses for answer in topic.partition_responses]
    courier.simulation.trace.note(f"{courier.name} is answered with {errors}")
    courier.disconnect()
