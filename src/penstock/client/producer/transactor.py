"""The driver of transactions: what is asked of coordinators, and when. `transactions` decides, this asks.

Each call has the time of `max.block.ms`. One that runs out of it leaves the transaction as it was, so that the same
call can be made again; every other failure is told to the state machine, which knows what is left to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client import coordinators, errors
from penstock.client.answers import error_codes
from penstock.client.backoff import Backoff
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.group.nouns import GroupMetadata, Offset
from penstock.client.producer.idempotence import NOBODY, Idempotence, Identity
from penstock.client.producer.prepared import PreparedTransaction
from penstock.client.producer.transactions import FENCED_BY_COORDINATOR, Transactions
from penstock.protocol.apis import api
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

logger = logging.getLogger(__name__)

FEATURE = "transaction.version"
IMPLICIT_LEVEL = 2

# Versions for transactions that are not of version 2: a broker would take later ones for promises.
EXPLICIT_END_VERSION = 4
EXPLICIT_OFFSETS_VERSION = 4
CLIENT_ADD_VERSION = 3  # later ones are between brokers

NEVER_MS = 2**31 - 1  # the time limit of transactions that have none (KIP-939)
NO_TWO_PHASES = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})

CONCURRENT_WAIT_MS = (
    20  # the end of the last transaction is still being written; Kafka's client waits as long
)


class Transactor:
    def __init__(
        self,
        client: ClusterClient,
        transactions: Transactions,
        idempotence: Idempotence,
        backoff: Backoff,
        *,
        timeout_ms: int,
        is_two_phase: bool = False,
    ) -> None:
        self._client = client
        self._transactions = transactions
        self._idempotence = idempotence
        self._backoff = backoff
        self._timeout_ms = NEVER_MS if is_two_phase else timeout_ms
        self._is_two_phase = is_two_phase
        self.open_identity: Identity | None = None
        """Of the transaction that was found prepared, under the identity that its records have."""
        self._adding: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._aborted_as: Identity | None = None
        """Producer id and epoch from an EndTxn(abort) that `end` has not used yet."""

    @property
    def _id(self) -> str:
        return self._transactions.transactional_id

    async def take_over(self, *, keep_prepared: bool, deadline_ms: int) -> None:
        """Take over the transactional id, as a producer that was just started does: earlier ones of that name are
        fenced. What they left open is aborted, or stays as it is to be ended here."""
        await self._initialize(NOBODY, keep_prepared=keep_prepared, deadline_ms=deadline_ms)

    async def renew(self, *, deadline_ms: int) -> None:
        """Get a higher epoch, unless somebody newer has the transactional id."""
        await self._initialize(self._idempotence.identity, keep_prepared=False, deadline_ms=deadline_ms)

    async def _initialize(self, identity: Identity, *, keep_prepared: bool, deadline_ms: int) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            enable_2pc=self._is_two_phase,
            keep_prepared_txn=keep_prepared,
        )
        try:
            response = await self._ask(
                CoordinatorKind.TRANSACTION, self._id, request, deadline_ms=deadline_ms
            )
        except errors.UnsupportedVersion as unknown:
            raise errors.TwoPhaseCommitUnavailable(
                "the broker has no two-phase commit", about=self._id
            ) from unknown
        if response.error_code is not ErrorCode.NONE:
            error = errors.of(response.error_code, about=self._id)
            if response.error_code in FENCED_BY_COORDINATOR:
                raise self._transactions.take_coordinator_error(error)
            if response.error_code in NO_TWO_PHASES and (self._is_two_phase or keep_prepared):
                raise errors.TwoPhaseCommitUnavailable(
                    "the broker refuses two-phase commit", about=self._id
                ) from error
            raise error
        node_id = await self._client.coordinator(
            CoordinatorKind.TRANSACTION, self._id, deadline_ms=deadline_ms
        )
        await self._client.connect(node_id)
        level = self._client.features(node_id).get(FEATURE, 0)
        self._idempotence.begin_anew(Identity(response.producer_id, response.producer_epoch))
        self.open_identity = None
        if response.ongoing_txn_producer_id >= 0:
            self.open_identity = Identity(
                response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
            )
        self._transactions.initialized(
            is_implicit=level >= IMPLICIT_LEVEL, has_open=self.open_identity is not None
        )

    def prepared(self) -> PreparedTransaction:
        """What names the transaction that has just been prepared, or was found so."""
        identity = self.open_identity or self._idempotence.identity
        return PreparedTransaction(
            self._id,
            identity.producer_id,
            identity.epoch,
            record=self._transactions.first_record,
            is_empty=not self._transactions.is_started,
        )

    def add_partitions(self, *, deadline_ms: int, when_done: Any) -> None:
        """Add what waits to be added, in a task of its own; `when_done` is called after it."""
        if self._adding is None:
            self._adding = asyncio.get_running_loop().create_task(
                self._add_partitions(deadline_ms, when_done)
            )

    def check_fenced(self, *, deadline_ms: int, when_done: Callable[[], None]) -> None:
        """Find out why a partition's leader refuses the epoch, in a task of its own; `when_done` is called after it.

        Either a newer producer has the transactional id, or the transaction took longer than its timeout. The
        transaction is lost in both cases, so the coordinator is told to abort it, and its answer tells which.
        """
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(
                self._check_fenced(deadline_ms, when_done)
            )

    async def _check_fenced(self, deadline_ms: int, when_done: Callable[[], None]) -> None:
        try:
            self._aborted_as = await self._tell_end(is_commit=False, deadline_ms=deadline_ms)
        except errors.PenstockError as error:
            logger.info("%s: whether the producer is fenced is not known yet: %s", self._id, error)
        finally:
            self._checking = None
        when_done()

    def stop(self) -> None:
        for task in (self._adding, self._checking):
            if task is not None:
                task.cancel()

    async def _add_partitions(self, deadline_ms: int, when_done: Any) -> None:
        wanted = self._transactions.unadded()
        by_topic: dict[str, list[int]] = {}
        for topic, partition in wanted:
            by_topic.setdefault(topic, []).append(partition)
        identity = self._idempotence.identity
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=found) for topic, found in by_topic.items()
            ],
        )
        try:
            response = await self._ask(
                CoordinatorKind.TRANSACTION,
                self._id,
                request,
                deadline_ms=deadline_ms,
                version_max=CLIENT_ADD_VERSION,
            )
            for topic in response.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    code = result.partition_error_code
                    if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
                        place = TopicPartition(topic.name, result.partition_index)
                        raise errors.of(code, about=place)
            self._transactions.added(wanted)
        except errors.PenstockError as error:
            self._transactions.take_coordinator_error(error)
        finally:
            self._adding = None
        when_done()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Offset], group: GroupMetadata, *, deadline_ms: int
    ) -> None:
        """Let these offsets be committed with the transaction, or not at all."""
        self._transactions.check_send()
        if not offsets:
            return
        if not self._transactions.is_implicit:
            await self._add_offsets(group.group_id, deadline_ms=deadline_ms)
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        identity = self._idempotence.identity
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(name=topic, partitions=found) for topic, found in by_topic.items()
            ],
        )
        self._transactions.started()
        response = await self._ask(
            CoordinatorKind.GROUP,
            group.group_id,
            request,
            deadline_ms=deadline_ms,
            version_max=None if self._transactions.is_implicit else EXPLICIT_OFFSETS_VERSION,
        )
        for topic in response.topics:
            for told in topic.partitions:
                if told.error_code is not ErrorCode.NONE:
                    self._refuse(errors.of(told.error_code, about=group.group_id))

    async def _add_offsets(self, group_id: str, *, deadline_ms: int) -> None:
        identity = self._idempotence.identity
        response = await self._ask(
            CoordinatorKind.TRANSACTION,
            self._id,
            AddOffsetsToTxnRequest(
                transactional_id=self._id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                group_id=group_id,
            ),
            deadline_ms=deadline_ms,
        )
        if response.error_code is not ErrorCode.NONE:
            self._refuse(errors.of(response.error_code, about=group_id))
        self._transactions.started()

    async def end(self, *, is_commit: bool, deadline_ms: int) -> None:
        """Tell the coordinator, when nothing is under way any more; the state machine was told before."""
        if self._transactions.is_started:
            identity = None if is_commit else self._aborted_as
            if identity is None:
                identity = await self._tell_end(is_commit=is_commit, deadline_ms=deadline_ms)
            self._idempotence.begin_anew(identity)
        self._aborted_as = None
        self.open_identity = None
        must_raise_epoch = self._transactions.must_raise_epoch and not self._transactions.is_implicit
        self._transactions.ended()
        if must_raise_epoch:
            await self.renew(deadline_ms=deadline_ms)

    async def _tell_end(self, *, is_commit: bool, deadline_ms: int) -> Identity:
        """Who the producer is from now on, by the coordinator's answer."""
        identity = self._idempotence.identity
        response = await self._ask(
            CoordinatorKind.TRANSACTION,
            self._id,
            EndTxnRequest(
                transactional_id=self._id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                committed=is_commit,
            ),
            deadline_ms=deadline_ms,
            version_max=None if self._transactions.is_implicit else EXPLICIT_END_VERSION,
        )
        if response.error_code is not ErrorCode.NONE:
            self._refuse(errors.of(response.error_code, about=self._id))
        if response.producer_id >= 0:
            identity = Identity(response.producer_id, response.producer_epoch)
        return identity

    def _refuse(self, error: errors.PenstockError) -> None:
        raise self._transactions.take_coordinator_error(error)

    async def _ask(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Any,
        *,
        deadline_ms: int,
        version_max: int | None = None,
    ) -> Any:
        """The coordinator's answer, asked again while it says that this will pass, or cannot be reached."""
        failures = 0
        while True:
            try:
                response = await self._ask_once(kind, key, request, deadline_ms, version_max)
                error = _passing(response, key)
                if error is None:
                    return response
            except (errors.Disconnected, errors.TimedOut) as failure:
                self._client.forget_coordinator(kind, key)
                error = failure
            if error.code in coordinators.MOVED:
                self._client.forget_coordinator(kind, key)
            failures += 1
            wait_ms = self._backoff.wait_ms(failures)
            if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                wait_ms = min(wait_ms, CONCURRENT_WAIT_MS)
            if self._client.now_ms() + wait_ms >= deadline_ms:
                raise errors.TimedOut(f"no answer to {type(request).__name__} in time: {error}") from error
            await asyncio.sleep(wait_ms / 1000)

    async def _ask_once(
        self, kind: CoordinatorKind, key: str, request: Any, deadline_ms: int, version_max: int | None
    ) -> Any:
        node_id = await self._client.coordinator(kind, key, deadline_ms=deadline_ms)
        await self._client.connect(node_id)
        version = None
        if version_max is not None:
            api_key = declaration_of(type(request)).key
            assert api_key is not None, "only requests are asked"
            version = min(version_max, self._client.version_of(node_id, api(api_key).key))
        return await self._client.ask(node_id, request, version=version)


def _passing(response: Any, key: str) -> errors.PenstockError | None:
    """What stands in the way for the moment, if anything does."""
    code = next((code for code in error_codes(response) if code.is_retriable), None)
    return None if code is None else errors.of(code, about=key)
