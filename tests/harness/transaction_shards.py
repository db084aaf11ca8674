"""Transactions without a broker: partitions that take markers as a test says, a coordinator over a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, cast

from harness.coordinator_log import ListLog
from penstock.config.broker import BrokerSettings
from penstock.coordinator.txn.markers import Done
from penstock.coordinator.txn.service import TransactionCoordinator
from penstock.coordinator.txn.transaction import TopicPartition, Transaction
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.records.control import EndedTransaction
from penstock.testing.loop import VirtualLoop, run_virtual

WALL_MS = 1_700_000_000_000

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
PAYMENTS_0 = TopicPartition("payments", 0)


class FakePartitions:
    """Takes markers: at once, or, while `is_holding`, when and in which order the test says. `errors` are what
    partitions answer instead of taking one."""

    def __init__(self) -> None:
        self.written: dict[TopicPartition, list[EndedTransaction]] = {}
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_holding = False
        self.held: list[tuple[EndedTransaction, TopicPartition, Done]] = []
        self.attempts: list[tuple[EndedTransaction, tuple[TopicPartition, ...]]] = []

    def write(self, marker: EndedTransaction, partitions: Sequence[TopicPartition], done: Done) -> None:
        self.attempts.append((marker, tuple(partitions)))
        for partition in partitions:
            self.held.append((marker, partition, done))
        if not self.is_holding:
            self.release()

    def release(self, *partitions: TopicPartition) -> None:
        """Let markers arrive in `partitions`, in this order; without names in all, as they were sent."""
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
    """Counts from 1000; has ids at hand, or has to fetch them first."""

    def __init__(self) -> None:
        self.next = 1000
        self.is_at_hand = True

    def take_now(self) -> int | None:
        if not self.is_at_hand:
            return None
        self.next += 1
        return self.next - 1

    async def take(self) -> int:
        await asyncio.sleep(0.01)
        self.next += 1
        return self.next - 1


class Coordination:
    """A coordinator of one partition, whose log and partitions outlive it: `restart` is another node taking over."""

    def __init__(self, properties: dict[str, str] | None = None, *, transaction_version: int = 2) -> None:
        self.log = ListLog()
        self.partitions = FakePartitions()
        self.producer_ids = FakeProducerIds()
        self.settings = BrokerSettings.load(properties or {})
        self.features = {"transaction.version": transaction_version}
        self.leader_epoch = 0
        self.coordinator = self._make()

    def _make(self) -> TransactionCoordinator:
        image = cast(MetadataImage, SimpleNamespace(features=self.features))
        coordinator = TransactionCoordinator(
            log=self.log,
            image=lambda: image,
            settings=lambda: self.settings,
            producer_ids=self.producer_ids,
            markers=self.partitions,
            wall_ms=lambda: WALL_MS + round(asyncio.get_running_loop().time() * 1000),
        )
        topics = {TRANSACTIONS_TOPIC: SimpleNamespace(partitions=(object(),))}
        delta = SimpleNamespace(image=SimpleNamespace(topics=topics))
        coordinator.metadata_changed(cast(MetadataDelta, delta))
        return coordinator

    def elect(self) -> None:
        self.leader_epoch += 1
        self.coordinator.elected(0, self.leader_epoch)

    def state(self, transactional_id: str) -> Transaction | None:
        (shard,) = self.coordinator.shards()
        return shard.transactions.get(transactional_id)

    async def restart(self) -> None:
        await self.coordinator.close()
        self.coordinator = self._make()
        self.elect()
        while self.coordinator.is_loading:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)


def play(
    scenario: Callable[[Coordination], Coroutine[Any, Any, None]],
    properties: dict[str, str] | None = None,
    *,
    transaction_version: int = 2,
) -> None:
    """Run `scenario` with a coordinator that serves, on a clock of its own."""

    async def main() -> None:
        stage = Coordination(properties, transaction_version=transaction_version)
        stage.elect()
        await scenario(stage)
        await stage.coordinator.close()

    run_virtual(VirtualLoop(), main())
