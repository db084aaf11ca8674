"""Transactions without a broker: partitions that accept markers as a test says, and a coordinator over an in-memory
log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from harness.coordinator_log import ListLog
from penstock.config.broker import BrokerSettings
from penstock.coordinator.txn.markers import Done
from penstock.coordinator.txn.records import TransactionLogKey, TransactionSerde
from penstock.coordinator.txn.service import TransactionCoordinator
from penstock.coordinator.txn.transaction import State, TopicPartition, Transaction
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.records import kernel
from penstock.records.control import TxnMarkerEntry
from simulator.loop import VirtualLoop, run_virtual

WALL_MS = 1_700_000_000_000

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
PAYMENTS_0 = TopicPartition("payments", 0)


TIMEOUT_MS = 60_000

R = TypeVar("R")

Initiated = ErrorCode | tuple[int, int] | tuple[int, int, int, int]
"""Producer id and epoch; with two-phase commit also those of the open transaction."""


class FakePartitions:
    """Accepts markers at once or, while `is_holding`, when and in the order that the test says. `errors` are returned
    instead of accepting one."""

    def __init__(self) -> None:
        self.written: dict[TopicPartition, list[TxnMarkerEntry]] = {}
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_holding = False
        self.held: list[tuple[TxnMarkerEntry, TopicPartition, Done]] = []
        self.attempts: list[tuple[TxnMarkerEntry, tuple[TopicPartition, ...]]] = []

    def write(self, marker: TxnMarkerEntry, partitions: Sequence[TopicPartition], done: Done) -> None:
        self.attempts.append((marker, tuple(partitions)))
        for partition in partitions:
            self.held.append((marker, partition, done))
        if not self.is_holding:
            self.release()

    def release(self, *partitions: TopicPartition) -> None:
        """Deliver the markers of `partitions`, in this order; without names all of them, as they were sent."""
        for partition in partitions or tuple(dict.fromkeys(held[1] for held in self.held)):
            ready = [held for held in self.held if held[1] == partition]
            self.held = [held for held in self.held if held[1] != partition]
            for marker, _, done in ready:
                error = self.errors.get(partition, ErrorCode.NONE)
                if error is ErrorCode.NONE:
                    self.written.setdefault(partition, []).append(marker)
                done(partition, error)

    def ends(self, partition: TopicPartition) -> list[bool]:
        """How the transactions in a partition ended: True for a commit."""
        return [marker.is_commit for marker in self.written.get(partition, [])]


class FakeProducerIds:
    """Counts from 1000. Ids are available at once, or have to be fetched first."""

    def __init__(self) -> None:
        self.next = 1000
        self.is_at_hand = True
        self.refusal: ErrorCode | None = None

    def take_now(self) -> int | None:
        if not self.is_at_hand:
            return None
        self.next += 1
        return self.next - 1

    async def take(self) -> int:
        await asyncio.sleep(0.01)
        if self.refusal is not None:
            raise Refused(self.refusal)
        self.next += 1
        return self.next - 1


class Coordination:
    """The coordinator of one partition. Its log and partitions outlive it: `restart` is another node taking over."""

    def __init__(self, properties: dict[str, str] | None = None, *, transaction_version: int = 2) -> None:
        self.log = ListLog()
        self.partitions = FakePartitions()
        self.producer_ids = FakeProducerIds()
        self.settings = BrokerSettings.load(properties or {})
        self.features = {"transaction.version": transaction_version}
        self.leader_epoch = 0
        self.has_topic = True
        self.clock_offset_ms = 0
        self.coordinator = self._make()

    def _make(self) -> TransactionCoordinator:
        image = cast(MetadataImage, SimpleNamespace(features=self.features))
        return TransactionCoordinator(
            log=self.log,
            image=lambda: image,
            settings=lambda: self.settings,
            producer_ids=self.producer_ids,
            markers=self.partitions,
            wall_ms=self._wall_ms,
        )

    def _wall_ms(self) -> int:
        return WALL_MS + self.clock_offset_ms + round(asyncio.get_running_loop().time() * 1000)

    def leaders_changed(self) -> None:
        """Publish a change of some topic."""
        self.announce(changed={"orders": object()})

    def announce(self, *, changed: dict[str, object] | None = None) -> None:
        """Publish the metadata to the coordinator."""
        topics = {TRANSACTIONS_TOPIC: SimpleNamespace(partitions=(object(),))} if self.has_topic else {}
        delta = SimpleNamespace(image=SimpleNamespace(topics=topics), topics=changed or {})
        self.coordinator.metadata_changed(cast(MetadataDelta, delta))

    def elect(self) -> None:
        self.announce()
        self.leader_epoch += 1
        self.coordinator.elected(0, self.leader_epoch)

    # -- requests; a refusal returns its error code

    def init(
        self,
        transactional_id: str = "t",
        expected: tuple[int, int] = (-1, -1),
        *,
        timeout_ms: int = TIMEOUT_MS,
        version: int = 6,
        **two_phase: bool,
    ) -> Initiated:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            **two_phase,
        )
        response = _now(lambda: self.coordinator.init_producer_id(request, version=version))
        if isinstance(response, ErrorCode):
            return response
        if response.error_code is not ErrorCode.NONE:
            return response.error_code
        if response.ongoing_txn_producer_id == -1:
            return response.producer_id, response.producer_epoch
        return (
            response.producer_id,
            response.producer_epoch,
            response.ongoing_txn_producer_id,
            response.ongoing_txn_producer_epoch,
        )

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = "t",
        verify_only: bool = False,
        is_version_2: bool = True,
    ) -> ErrorCode | dict[TopicPartition, ErrorCode]:
        """NONE if every partition is in the transaction."""
        errors = _now(
            lambda: self.coordinator.add_partitions(
                transactional_id, *producer, partitions, verify_only=verify_only, is_version_2=is_version_2
            )
        )
        if isinstance(errors, ErrorCode):
            return errors
        assert list(errors) == list(dict.fromkeys(partitions))
        return errors if any(errors.values()) else ErrorCode.NONE

    def end(
        self,
        producer: tuple[int, int],
        *,
        is_commit: bool = True,
        transactional_id: str = "t",
        version: int = 5,
    ) -> ErrorCode | tuple[int, int]:
        """The producer's next id and epoch."""
        response = _now(
            lambda: self.coordinator.end(
                end_request(producer, is_commit=is_commit, transactional_id=transactional_id), version=version
            )
        )
        return (
            response if isinstance(response, ErrorCode) else (response.producer_id, response.producer_epoch)
        )

    def commit(self, producer: tuple[int, int], **more: Any) -> ErrorCode | tuple[int, int]:
        return self.end(producer, is_commit=True, **more)

    def abort(self, producer: tuple[int, int], **more: Any) -> ErrorCode | tuple[int, int]:
        return self.end(producer, is_commit=False, **more)

    # -- results

    def transaction(self, transactional_id: str = "t") -> Transaction:
        (shard,) = self.coordinator.shards()
        return shard.transactions[transactional_id]

    def state(self, transactional_id: str = "t") -> State:
        return self.transaction(transactional_id).state

    def records(self) -> list[tuple[str, Transaction | None]]:
        """The records of the log, decoded."""
        framing = TransactionSerde()
        return [
            (key.transactional_id, value)
            for batch in self.log.batches.get(0, [])
            for record in kernel.iterate_records(memoryview(batch), limit_bytes=1 << 20)
            for key, value in [framing.decode(record.key or b"", record.value)]
        ]

    def value_versions(self) -> list[int]:
        """The versions of the log's values."""
        return [
            int.from_bytes((record.value or b"")[:2], "big")
            for batch in self.log.batches.get(0, [])
            for record in kernel.iterate_records(memoryview(batch), limit_bytes=1 << 20)
        ]

    def known(self) -> list[str]:
        """All transactional ids."""
        (shard,) = self.coordinator.shards()
        return list(shard.transactions)

    def states(self) -> list[State | None]:
        """The states in the log, in order; None for a tombstone."""
        return [None if value is None else value.state for _, value in self.records()]

    def put(self, transaction: Transaction, transactional_id: str = "t") -> None:
        """Set the state directly."""
        (shard,) = self.coordinator.shards()
        shard.replay(TransactionLogKey(transactional_id=transactional_id), transaction)

    def cut_log(self, record_count: int) -> None:
        """Drop the end of the log, as if the node had died before writing it."""
        self.log.batches[0] = self.log.batches[0][:record_count]
        self.log.ends[0] = self.log.committed[0] = len(self.log.batches[0])

    async def restart(self) -> None:
        await self.coordinator.close()
        self.coordinator = self._make()
        self.elect()
        while self.coordinator.is_loading:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)


def end_request(producer: tuple[int, int], *, is_commit: bool, transactional_id: str = "t") -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=is_commit,
    )


def _now(ask: Callable[[], R | asyncio.Future[R]]) -> R | ErrorCode:
    """The result, which must be available at once, or the error code of a refusal."""
    try:
        response = ask()
    except Refused as refusal:
        return refusal.error
    assert not isinstance(response, asyncio.Future), "there is no response yet"
    return response


def play(
    scenario: Callable[[Coordination], Coroutine[Any, Any, None]],
    properties: dict[str, str] | None = None,
    *,
    transaction_version: int = 2,
) -> None:
    """Run `scenario` with a running coordinator, on its own clock."""

    async def main() -> None:
        harness = Coordination(properties, transaction_version=transaction_version)
        harness.elect()
        await scenario(harness)
        await harness.coordinator.close()

    run_virtual(VirtualLoop(), main())
