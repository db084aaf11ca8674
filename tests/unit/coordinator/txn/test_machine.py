"""Transactions under any sequence of events: producers share an id, partitions fail or respond late and out of order,
coordinators fail. Every transaction ends the same way in all its partitions, and as its producer was notified."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.transaction_shards import TIMEOUT_MS, Coordination, FakePartitions, end_request, play
from penstock.coordinator.txn.markers import Done
from penstock.coordinator.txn.transaction import PREPARED, State, TopicPartition
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.end_txn import EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.records.control import TxnMarkerEntry

PARTITIONS = tuple(TopicPartition("orders", index) for index in range(4))
STEPS = 200

AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class Partition:
    """A minimal model of `storage.producer_state`."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.open: dict[int, int] = {}
        """The open transaction, by producer id."""
        self.ended: dict[int, bool] = {}
        """Whether each transaction was committed."""
        self.coordinator_epoch = 0

    def write(self, transaction: int, producer_id: int, epoch: int) -> None:
        if epoch < self.epochs.get(producer_id, -1):
            return  # the producer was fenced meanwhile
        self.epochs[producer_id] = epoch
        assert self.open.setdefault(producer_id, transaction) == transaction, "two transactions in one"

    def end(self, marker: TxnMarkerEntry) -> ErrorCode:
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        if marker.coordinator_epoch < self.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.coordinator_epoch = marker.coordinator_epoch
        known = self.epochs.get(producer_id, -1)
        is_late = marker.transaction_version >= 2 and epoch == known and producer_id in self.open
        if epoch < known or is_late:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.epochs[producer_id] = epoch
        transaction = self.open.pop(producer_id, None)
        if transaction is not None:
            self.ended[transaction] = marker.is_commit
        return ErrorCode.NONE


class UnreliablePartitions(FakePartitions):
    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self.is_healed = False

    def write(self, marker: TxnMarkerEntry, partitions: Sequence[TopicPartition], done: Done) -> None:
        for partition in partitions:
            held = (marker, partition, done)
            if self.is_healed or self.rng.random() < 0.6:
                self.deliver(held)
            else:
                self.held.append(held)

    def deliver(self, held: tuple[TxnMarkerEntry, TopicPartition, Done]) -> None:
        marker, partition, done = held
        if not self.is_healed and self.rng.random() < 0.2:
            done(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        error = self.partitions[partition].end(marker)
        if not self.is_healed and self.rng.random() < 0.1:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # the marker is written, but the response is lost
        done(partition, error)

    def deliver_some(self) -> None:
        self.rng.shuffle(self.held)
        for _ in range(self.rng.randint(0, len(self.held))):
            self.deliver(self.held.pop())


class Producer:
    def __init__(self) -> None:
        self.identity: tuple[int, int] | None = None
        self.transaction: int | None = None
        self.wish: bool | None = None
        """How it ends its transaction; a retry must not change it."""
        self.is_kept = False
        self.waiting: tuple[asyncio.Future[Any], Callable[[Any], None]] | None = None

    def forget(self) -> None:
        self.identity = self.transaction = self.wish = None
        self.is_kept = False


class World:
    def __init__(self, harness: Coordination, rng: random.Random, *, end_version: int) -> None:
        self.harness = harness
        self.rng = rng
        self.partitions = UnreliablePartitions(rng)
        harness.partitions = self.partitions
        self.end_version = end_version
        self.is_version_2 = end_version >= 5
        self.producers = [Producer() for _ in range(3)]
        self.count = 0
        self.transactions: dict[tuple[int, int], int] = {}
        """By the producer id and epoch in its records."""
        self.reported: dict[int, bool] = {}

    # -- producers

    def act(self, producer: Producer) -> None:
        if producer.waiting is not None:
            return
        choice = self.rng.random()
        if producer.identity is None or choice < 0.03:
            self.init(producer)
        elif producer.wish is not None:
            self.end(producer, producer.wish)
        elif choice < 0.6 and not producer.is_kept:
            self.add(producer)
        elif producer.transaction is not None:
            self.end(producer, self.rng.random() < 0.6)

    def init(self, producer: Producer) -> None:
        is_keeping = self.rng.random() < 0.4
        request = InitProducerIdRequest(
            transactional_id="t",
            transaction_timeout_ms=TIMEOUT_MS,
            keep_prepared_txn=is_keeping,
            enable_2pc=self.rng.random() < 0.3,
        )
        producer.forget()

        def on_response(response: InitProducerIdResponse) -> None:
            if response.error_code is ErrorCode.NONE:
                producer.identity = (response.producer_id, response.producer_epoch)
                open_one = (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
                if open_one != (-1, -1):
                    producer.transaction = self.transactions[open_one]
                    producer.is_kept = True

        self.ask(producer, lambda: self.harness.coordinator.init_producer_id(request, version=6), on_response)

    def add(self, producer: Producer) -> None:
        assert producer.identity is not None
        identity = producer.identity
        chosen = self.rng.sample(PARTITIONS, self.rng.randint(1, len(PARTITIONS)))

        transaction = producer.transaction
        if transaction is None:
            self.count += 1
            transaction = self.transactions[identity] = self.count

        def on_response(errors: dict[TopicPartition, ErrorCode]) -> None:
            assert not any(errors.values())
            producer.transaction = transaction
            for partition in chosen:
                self.partitions.partitions[partition].write(transaction, *identity)

        self.ask(
            producer,
            lambda: self.harness.coordinator.add_partitions(
                "t", *identity, chosen, verify_only=False, is_version_2=self.is_version_2
            ),
            on_response,
        )

    def end(self, producer: Producer, is_commit: bool) -> None:
        assert producer.identity is not None
        producer.wish = is_commit
        request = end_request(producer.identity, is_commit=is_commit)

        def on_response(response: EndTxnResponse) -> None:
            assert producer.transaction is not None
            assert self.reported.setdefault(producer.transaction, is_commit) is is_commit
            producer.identity = (response.producer_id, response.producer_epoch)
            producer.transaction = producer.wish = None
            producer.is_kept = False

        self.ask(
            producer, lambda: self.harness.coordinator.end(request, version=self.end_version), on_response
        )

    def ask(self, producer: Producer, request: Callable[[], Any], on_response: Callable[[Any], None]) -> None:
        try:
            answer = request()
        except Refused as refusal:
            self.refused(producer, refusal)
            return
        if isinstance(answer, asyncio.Future):
            producer.waiting = (answer, on_response)
        else:
            on_response(answer)

    def refused(self, producer: Producer, refusal: Refused) -> None:
        if refusal.error not in AGAIN or self.rng.random() < 0.3:
            producer.forget()  # fenced or failed

    def hear(self) -> None:
        for producer in self.producers:
            if producer.waiting is not None and producer.waiting[0].done():
                (answer, on_response), producer.waiting = producer.waiting, None
                refusal = answer.exception()
                if refusal is None:
                    on_response(answer.result())
                else:
                    assert isinstance(refusal, Refused)
                    self.refused(producer, refusal)

    # -- faults

    async def step(self) -> None:
        await asyncio.sleep(0.001)  # so that due timers run
        choice = self.rng.random()
        if self.rng.random() < 0.3:
            self.harness.log.refusal = None
        if self.is_decided_but_not_committed() and self.rng.random() < 0.2:
            await self.die()
        elif choice < 0.7:
            self.act(self.producers[0] if self.rng.random() < 0.9 else self.rng.choice(self.producers))
        elif choice < 0.85:
            self.partitions.deliver_some()
        elif choice < 0.89:
            self.harness.log.commits_at_once = not self.harness.log.commits_at_once
        elif choice < 0.92:
            await asyncio.sleep(self.rng.choice([0.05, 0.5, 3, 70]))
        elif choice < 0.94:
            self.harness.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        else:
            await self.die()
        if self.rng.random() < 0.4 and self.harness.log.ends:
            self.harness.log.commit()
        self.hear()

    def is_decided_but_not_committed(self) -> bool:
        """At the worst moment."""
        committed = self.harness.log.committed.get(0, 0)
        return any(state in PREPARED for state in self.harness.states()[committed:])

    async def die(self) -> None:
        """Uncommitted records are lost. Markers in flight may still arrive."""
        if self.rng.random() < 0.5:
            self.partitions.held.clear()
        log = self.harness.log
        log.lose_leadership()
        if log.batches:
            self.harness.cut_log(log.committed.get(0, 0))
        self.hear()
        await self.harness.restart()

    async def heal(self) -> None:
        log = self.harness.log
        log.refusal, log.commits_at_once = None, True
        if log.ends:
            log.commit()
        self.partitions.is_healed = True
        while self.partitions.held:
            self.partitions.deliver(self.partitions.held.pop())
        await asyncio.sleep(10)
        self.hear()
        await self.die()
        self.end_what_is_open()
        await asyncio.sleep(TIMEOUT_MS / 1000 + 10)

    def end_what_is_open(self) -> None:
        """An operator ends transactions without a timeout."""
        if self.harness.known() and self.harness.state() is State.ONGOING:
            self.harness.init()


@pytest.mark.parametrize("end_version", [4, 5])
@pytest.mark.parametrize("seed", range(40))
def test_every_transaction_ends_the_same_way_everywhere(seed: int, end_version: int) -> None:
    async def scenario(harness: Coordination) -> None:
        rng = random.Random(seed)
        world = World(harness, rng, end_version=end_version)
        await harness.restart()
        for _ in range(STEPS):
            await world.step()
        await world.heal()

        assert not harness.known() or harness.state() not in PREPARED
        for partition in world.partitions.partitions.values():
            assert partition.open == {}
        ends: dict[int, bool] = dict(world.reported)
        for partition in world.partitions.partitions.values():
            for transaction, is_commit in partition.ended.items():
                assert ends.setdefault(transaction, is_commit) is is_commit, f"transaction {transaction}"
        await harness.coordinator.close()

    play(
        scenario,
        {"transaction.two.phase.commit.enable": "true"},
        transaction_version=2 if end_version >= 5 else 1,
    )


def test_the_seeds_see_transactions_of_every_kind() -> None:
    """Shows that the test above can fail."""
    seen: dict[str, int] = {"commit": 0, "abort": 0, "kept": 0, "no response": 0}

    seeds = iter(range(20))

    async def scenario(harness: Coordination) -> None:
        world = World(harness, random.Random(next(seeds)), end_version=5)
        await harness.restart()
        for _ in range(STEPS):
            await world.step()
            seen["kept"] += any(producer.is_kept for producer in world.producers)
        await world.heal()
        ended = {
            transaction: is_commit
            for partition in world.partitions.partitions.values()
            for transaction, is_commit in partition.ended.items()
        }
        for transaction, is_commit in ended.items():
            seen["commit" if is_commit else "abort"] += 1
            seen["no response"] += transaction not in world.reported

    for _ in range(20):
        play(scenario, {"transaction.two.phase.commit.enable": "true"})
    assert min(seen.values()) > 10, seen
