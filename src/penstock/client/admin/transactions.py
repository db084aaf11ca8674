"""Transactions and the producers behind them: look at them, end one that hangs or was prepared, fence its producer."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls, Call, Newest
from penstock.client.admin.outcome import Answers, only
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import CoordinatorKind
from penstock.client.producer.prepared import Outcome, PreparedTransaction
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode


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


REPLACED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""A newer producer has the name, or the coordinator has forgotten it."""
ENDED = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
EPOCH_BUMPS_LEVEL = 2
"""Of transaction.version: from there on each end raises the producer's epoch (KIP-890)."""
PLAIN_END_VERSION = 4
FETCH_BY_NAME_VERSION = 12


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

    async def complete_transaction(
        self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None = None
    ) -> None:
        """Commit or abort a transaction that a producer has prepared, from whatever process; may be repeated.

        Raises `TransactionNotCommitted` where it was aborted before, because its time was over or by a newer producer
        of that name, and `TransactionNotAborted` where it was committed before. `TransactionOutcomeUnknown` where a
        newer producer has the name and nothing tells what became of the transaction.
        """
        if prepared.is_empty:
            return
        call = self._begin(f"end the transaction of {prepared.transactional_id}", timeout)
        is_bumped = False

        async def attempt() -> ErrorCode:
            nonlocal is_bumped
            coordinator = CoordinatorKind.TRANSACTION, prepared.transactional_id
            level = await call.feature_level(*coordinator, "transaction.version")
            is_bumped = level >= EPOCH_BUMPS_LEVEL
            response = await call.ask_coordinator(
                *coordinator,
                wire.transactions.end_request(prepared, is_commit=commit),
                newest=None if is_bumped else Newest(ApiKey.END_TXN, PLAIN_END_VERSION),
            )
            if response.error_code.is_retriable:  # it is being ended
                raise errors.of(response.error_code, about=prepared.transactional_id)
            code: ErrorCode = response.error_code
            return code

        code = await call.repeat(attempt)
        if code is ErrorCode.NONE:
            return
        refusal = errors.of(code, about=prepared.transactional_id)
        if code is ErrorCode.INVALID_TXN_STATE:
            outcome = await self._outcome_of_rest(call, prepared, commit=commit, is_bumped=is_bumped)
        elif code in REPLACED:
            outcome = Outcome.UNKNOWN
        else:
            raise refusal
        if outcome is Outcome.UNKNOWN:
            outcome = await self._outcome_in_log(call, prepared)
        _check_outcome(outcome, prepared, commit=commit, refusal=refusal)

    async def _outcome_of_rest(
        self, call: Call, prepared: PreparedTransaction, *, commit: bool, is_bumped: bool
    ) -> Outcome:
        """Of a transaction that its coordinator refuses to end so: it ended otherwise, or there is nothing to end."""
        told = await self.describe_transaction(prepared.transactional_id, timeout=call.left_s())
        if (told.producer_id, told.producer_epoch) == (prepared.producer_id, prepared.producer_epoch):
            # Where every end raises the epoch, nothing was written under this one; elsewhere only `Empty` says so.
            if is_bumped or told.state is TransactionState.EMPTY:
                return Outcome.EMPTY
            return Outcome.ABORTED if commit else Outcome.COMMITTED
        if told.state in ENDED and is_bumped and told.producer_epoch == prepared.producer_epoch + 1:
            return Outcome.ABORTED if commit else Outcome.COMMITTED
        return Outcome.UNKNOWN

    async def _outcome_in_log(self, call: Call, prepared: PreparedTransaction) -> Outcome:
        if prepared.record is None:
            return Outcome.UNKNOWN
        request = wire.transactions.outcome_request(prepared.record)

        async def ask(node_id: int | None, wanted: list[TopicPartition]) -> Answers[TopicPartition, Outcome]:
            response = await call.ask_node(
                node_id, request, newest=Newest(ApiKey.FETCH, FETCH_BY_NAME_VERSION)
            )
            return {each: wire.transactions.read_outcome(prepared, response) for each in wanted}

        partition = TopicPartition(prepared.record.topic, prepared.record.partition)
        try:
            return await only(call.each([partition], call.to_leaders(ask)))
        except (errors.UnknownTopicOrPartition, errors.TopicAuthorizationFailed):
            return Outcome.UNKNOWN  # the topic is gone, or not ours to read

    async def terminate_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> FencedProducer:
        """Abort the transaction of a producer, wherever it is, also one that waits to be committed in two phases."""
        return await self.fence_producer(transactional_id, timeout=timeout)


def _check_outcome(
    outcome: Outcome, prepared: PreparedTransaction, *, commit: bool, refusal: errors.BrokerError
) -> None:
    """Raises unless the transaction ended as was asked for, before it was asked."""
    if outcome is Outcome.EMPTY or outcome is (Outcome.COMMITTED if commit else Outcome.ABORTED):
        return
    if outcome is Outcome.ABORTED:
        raise errors.TransactionNotCommitted(about=prepared.transactional_id) from refusal
    if outcome is Outcome.COMMITTED:
        raise errors.TransactionNotAborted(about=prepared.transactional_id) from refusal
    raise errors.TransactionOutcomeUnknown(about=prepared.transactional_id) from refusal
