"""Transactions and the producers behind them: look at them, end one that hangs, fence its producer."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.outcome import Answers, only
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import CoordinatorKind


class TransactionState(enum.StrEnum):
    """As brokers spell it."""

    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, name: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    transactional_id: str
    coordinator: int
    """The broker that coordinates it."""
    producer_id: int
    state: TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    started_ms: int | None
    """When the transaction began, by the broker's clock; None between transactions."""
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """What a partition knows of a producer that writes to it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None
    """Where its open transaction begins; None where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedProducer:
    producer_id: int
    producer_epoch: int


class TransactionsAdmin(AdminCalls):
    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState | str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """The transactions of the cluster, of all producers that the coordinators remember.

        `pattern` is a regular expression over transactional ids (Kafka 4.1 and later).
        """
        call = self._begin("list transactions", timeout)
        request = wire.transactions.list_request(
            states=[str(each) for each in states],
            producer_ids=list(producer_ids),
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )
        return wire.transactions.read_listed(await call.everywhere(request))

    async def describe_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> TransactionDescription:
        return await only(self.describe_transactions([transactional_id], timeout=timeout))

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        call = self._begin("describe transactions", timeout)

        async def ask(node_id: int | None, ids: list[str]) -> Answers[str, TransactionDescription]:
            response = await call.ask_node(node_id, wire.transactions.describe_request(ids))
            return wire.transactions.read_described(response, call.broker_of(node_id))

        return await call.each(transactional_ids, call.to_coordinators(CoordinatorKind.TRANSACTION, ask))

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Who writes to partitions, as their leaders know it, or as the replica on one broker does."""
        call = self._begin("describe producers", timeout)

        async def ask(
            node_id: int | None, wanted: list[TopicPartition]
        ) -> Answers[TopicPartition, list[ProducerState]]:
            response = await call.ask_node(node_id, wire.transactions.producers_request(wanted))
            return wire.transactions.read_producers(response)

        async def at_broker(wanted: list[TopicPartition]) -> Answers[TopicPartition, list[ProducerState]]:
            return await ask(broker, wanted)

        wanted = [TopicPartition(*each) for each in partitions]
        return await call.each(wanted, call.to_leaders(ask) if broker is None else at_broker)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
    ) -> None:
        """Write the end of a hanging transaction into one partition, in place of its coordinator, which forgot it.

        `describe_producers` tells the numbers. For a transaction that is not lost, use `terminate_transaction`.
        """
        call = self._begin(f"abort the transaction on {TopicPartition(*partition)}", timeout)

        async def ask(node_id: int | None, wanted: list[TopicPartition]) -> Answers[TopicPartition, None]:
            request = wire.transactions.abort_request(
                wanted,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
            return wire.transactions.read_aborted(await call.ask_node(node_id, request))

        await only(call.each([TopicPartition(*partition)], call.to_leaders(ask)))

    async def fence_producer(self, transactional_id: str, *, timeout: float | None = None) -> FencedProducer:
        """End what a producer has open, and have it refused from now on."""
        return await only(self.fence_producers([transactional_id], timeout=timeout))

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        call = self._begin("fence producers", timeout)

        async def ask(node_id: int | None, ids: list[str]) -> Answers[str, FencedProducer]:
            # The protocol takes one at a time. Its timeout bounds only the time until the transaction has ended.
            return {
                each: wire.transactions.read_fenced(
                    each,
                    await call.ask_node(
                        node_id, wire.transactions.fence_request(each, timeout_ms=call.request_ms())
                    ),
                )
                for each in ids
            }

        return await call.each(transactional_ids, call.to_coordinators(CoordinatorKind.TRANSACTION, ask))

    async def terminate_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> FencedProducer:
        """Abort the transaction of a producer, wherever it is, also one that waits to be committed in two phases."""
        return await self.fence_producer(transactional_id, timeout=timeout)
