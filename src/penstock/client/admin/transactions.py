"""Transactions and their producers: list and describe, end a hanging or prepared transaction, fence a producer."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls, Call, MaxVersion
from penstock.client.admin.operations import UnknownMember
from penstock.client.admin.results import Results, only
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import CoordinatorKind
from penstock.client.prepared_transaction import Outcome, PreparedTransaction
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode


class TransactionState(UnknownMember, enum.StrEnum):
    """The names that brokers use."""

    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One transaction in the result of `list_transactions`."""

    transactional_id: str
    coordinator: int
    """The broker that coordinates it."""
    producer_id: int
    state: TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transaction and its partitions."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    started_ms: int | None
    """When the transaction began, by the broker's clock; None if none is open."""
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """The state of a producer in a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None
    """The first offset of its open transaction; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedProducer:
    """The new producer id and epoch after fencing."""

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
"""A newer producer has the transactional id, or the coordinator has forgotten it."""
ENDED = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
EPOCH_BUMPS_LEVEL = 2
"""Of transaction.version: from here on every end bumps the producer's epoch (KIP-890)."""
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
        """All transactions that the coordinators know.

        `pattern` is a regular expression for transactional ids (Kafka 4.1 and later).
        """
        call = self._begin("list transactions", timeout)
        request = wire.transactions.list_request(
            states=[str(each) for each in states],
            producer_ids=list(producer_ids),
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )
        return wire.transactions.read_listed(await call.ask_all_brokers(request))

    async def describe_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> TransactionDescription:
        """State, producer and partitions of a transaction."""
        return await only(self.describe_transactions([transactional_id], timeout=timeout))

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """State, producer and partitions of transactions."""
        call = self._begin("describe transactions", timeout)

        async def ask(node_id: int | None, ids: list[str]) -> Results[str, TransactionDescription]:
            response = await call.ask_node(node_id, wire.transactions.describe_request(ids))
            return wire.transactions.read_described(response, call.broker_of(node_id))

        return await call.run_each(transactional_ids, call.to_coordinators(CoordinatorKind.TRANSACTION, ask))

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producers of partitions, as the leaders know them, or as the replica on one broker does."""
        call = self._begin("describe producers", timeout)

        async def ask(
            node_id: int | None, wanted: list[TopicPartition]
        ) -> Results[TopicPartition, list[ProducerState]]:
            response = await call.ask_node(node_id, wire.transactions.producers_request(wanted))
            return wire.transactions.read_producers(response)

        async def at_broker(wanted: list[TopicPartition]) -> Results[TopicPartition, list[ProducerState]]:
            return await ask(broker, wanted)

        wanted = [TopicPartition(*each) for each in partitions]
        return await call.run_each(wanted, call.to_leaders(ask) if broker is None else at_broker)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
    ) -> None:
        """Write an abort marker for a hanging transaction into one partition. Use it if the coordinator has lost the
        transaction.

        `describe_producers` returns the numbers. If the coordinator knows the transaction, use `terminate_transaction`.
        """
        call = self._begin(f"abort the transaction on {TopicPartition(*partition)}", timeout)

        async def ask(node_id: int | None, wanted: list[TopicPartition]) -> Results[TopicPartition, None]:
            request = wire.transactions.abort_request(
                wanted,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
            return wire.transactions.read_aborted(await call.ask_node(node_id, request))

        await only(call.run_each([TopicPartition(*partition)], call.to_leaders(ask)))

    async def fence_producer(self, transactional_id: str, *, timeout: float | None = None) -> FencedProducer:
        """Abort the open transaction of a producer and fence it."""
        return await only(self.fence_producers([transactional_id], timeout=timeout))

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Abort the open transactions of several producers and fence them."""
        call = self._begin("fence producers", timeout)

        async def ask(node_id: int | None, ids: list[str]) -> Results[str, FencedProducer]:
            # InitProducerId takes one at a time. Its timeout limits only the wait for the end of the transaction.
            return {
                each: wire.transactions.read_fenced(
                    each,
                    await call.ask_node(
                        node_id, wire.transactions.fence_request(each, timeout_ms=call.request_ms())
                    ),
                )
                for each in ids
            }

        return await call.run_each(transactional_ids, call.to_coordinators(CoordinatorKind.TRANSACTION, ask))

    async def complete_transaction(
        self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None = None
    ) -> None:
        """Commit or abort a prepared transaction (KIP-939), from any process. It may be repeated.

        Raises `TransactionNotCommitted` if it was aborted before, by a timeout or a newer producer, and
        `TransactionNotAborted` if it was committed before. Raises `TransactionOutcomeUnknown` if a newer producer has
        the transactional id and the outcome cannot be determined.
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
                max_version=None if is_bumped else MaxVersion(ApiKey.END_TXN, PLAIN_END_VERSION),
            )
            if response.error_code.is_retriable:  # it is being ended
                raise errors.of(response.error_code, about=prepared.transactional_id)
            code: ErrorCode = response.error_code
            return code

        code = await call.retry(attempt)
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
        """The outcome if the coordinator refuses to end the transaction: it ended otherwise, or there is nothing to
        end."""
        result = await self.describe_transaction(prepared.transactional_id, timeout=call.left_s())
        if (result.producer_id, result.producer_epoch) == (prepared.producer_id, prepared.producer_epoch):
            # If every end bumps the epoch, nothing was written under this one; otherwise only `Empty` says so.
            if is_bumped or result.state is TransactionState.EMPTY:
                return Outcome.EMPTY
            return Outcome.ABORTED if commit else Outcome.COMMITTED
        if result.state in ENDED and is_bumped and result.producer_epoch == prepared.producer_epoch + 1:
            return Outcome.ABORTED if commit else Outcome.COMMITTED
        return Outcome.UNKNOWN

    async def _outcome_in_log(self, call: Call, prepared: PreparedTransaction) -> Outcome:
        if prepared.record is None:
            return Outcome.UNKNOWN
        request = wire.transactions.outcome_request(prepared.record)

        async def ask(node_id: int | None, wanted: list[TopicPartition]) -> Results[TopicPartition, Outcome]:
            response = await call.ask_node(
                node_id, request, max_version=MaxVersion(ApiKey.FETCH, FETCH_BY_NAME_VERSION)
            )
            return {each: wire.transactions.read_outcome(prepared, response) for each in wanted}

        partition = TopicPartition(prepared.record.topic, prepared.record.partition)
        try:
            return await only(call.run_each([partition], call.to_leaders(ask)))
        except (errors.UnknownTopicOrPartition, errors.TopicAuthorizationFailed):
            return Outcome.UNKNOWN  # the topic was deleted, or this client is not allowed to read it

    async def terminate_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> FencedProducer:
        """Abort the transaction of a producer, in any state, also one that is prepared for two-phase commit."""
        return await self.fence_producer(transactional_id, timeout=timeout)


def _check_outcome(
    outcome: Outcome, prepared: PreparedTransaction, *, commit: bool, refusal: errors.BrokerError
) -> None:
    """Raises unless the transaction had already ended as requested."""
    if outcome is Outcome.EMPTY or outcome is (Outcome.COMMITTED if commit else Outcome.ABORTED):
        return
    if outcome is Outcome.ABORTED:
        raise errors.TransactionNotCommitted(about=prepared.transactional_id) from refusal
    if outcome is Outcome.COMMITTED:
        raise errors.TransactionNotAborted(about=prepared.transactional_id) from refusal
    raise errors.TransactionOutcomeUnknown(about=prepared.transactional_id) from refusal
