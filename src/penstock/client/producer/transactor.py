"""The driver of transactions: sends the requests to coordinators. `transactions` decides.

Each call has `max.block.ms`. A timeout leaves the transaction as it was, so that the call can be repeated; every other
failure goes to the state machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client import coordinators, errors
from penstock.client.cluster import TopicPartition, by_topic
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.group.types import GroupMetadata, Offset
from penstock.client.prepared_transaction import PreparedTransaction
from penstock.client.producer.idempotence import NO_PRODUCER_YET, Idempotence, ProducerIdAndEpoch
from penstock.client.producer.transactions import FENCED_BY_COORDINATOR, Transactions
from penstock.client.responses import error_codes
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
from penstock.runtime.backoff import Backoff

logger = logging.getLogger(__name__)

FEATURE = "transaction.version"
IMPLICIT_LEVEL = 2

# The last versions for transactions before version 2: later ones imply version 2.
EXPLICIT_END_VERSION = 4
EXPLICIT_OFFSETS_VERSION = 4
CLIENT_ADD_VERSION = 3  # later ones are between brokers

NEVER_MS = 2**31 - 1  # the timeout of transactions that have none (KIP-939)
NO_TWO_PHASES = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})

CONCURRENT_WAIT_MS = (
    20  # the end of the last transaction is still being written; the same wait as in Kafka's client
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
        self.open_identity: ProducerIdAndEpoch | None = None
        """The producer id and epoch of the prepared transaction that was found."""
        self._adding: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._aborted_as: ProducerIdAndEpoch | None = None
        """Producer id and epoch from an EndTxn(abort) that `end` has not used yet."""

    @property
    def _id(self) -> str:
        return self._transactions.transactional_id

    async def initialize(self, *, keep_prepared: bool, deadline_ms: int) -> None:
        """Take over the transactional id, as a producer does when it starts: earlier producers are fenced. Their open
        transaction is aborted, or stays to be ended here."""
        await self._initialize(NO_PRODUCER_YET, keep_prepared=keep_prepared, deadline_ms=deadline_ms)

    async def bump_epoch(self, *, deadline_ms: int) -> None:
        """Get a higher epoch, unless a newer producer has the transactional id."""
        await self._initialize(self._idempotence.identity, keep_prepared=False, deadline_ms=deadline_ms)

    async def _initialize(
        self, identity: ProducerIdAndEpoch, *, keep_prepared: bool, deadline_ms: int
    ) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            enable_2pc=self._is_two_phase,
            keep_prepared_txn=keep_prepared,
        )
        try:
            response = await self._ask_transaction(request, deadline_ms=deadline_ms)
        except errors.UnsupportedVersion as unknown:
            raise errors.TwoPhaseCommitUnavailable(
                "the broker does not support two-phase commit", about=self._id
            ) from unknown
        if response.error_code is not ErrorCode.NONE:
            error = errors.of(response.error_code, about=self._id)
            if response.error_code in FENCED_BY_COORDINATOR:
                raise self._transactions.take_coordinator_error(error)
            if response.error_code in NO_TWO_PHASES and (self._is_two_phase or keep_prepared):
                raise errors.TwoPhaseCommitUnavailable(
                    "the broker does not allow two-phase commit", about=self._id
                ) from error
            raise error
        node_id = await self._client.coordinator(
            CoordinatorKind.TRANSACTION, self._id, deadline_ms=deadline_ms
        )
        await self._client.connect(node_id)
        level = self._client.features(node_id).get(FEATURE, 0)
        self._idempotence.restart(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))
        self.open_identity = None
        if response.ongoing_txn_producer_id >= 0:
            self.open_identity = ProducerIdAndEpoch(
                response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
            )
        self._transactions.initialized(
            is_implicit=level >= IMPLICIT_LEVEL, has_open=self.open_identity is not None
        )

    def prepared(self) -> PreparedTransaction:
        """The transaction that has just been prepared, or was found prepared."""
        identity = self.open_identity or self._idempotence.identity
        return PreparedTransaction(
            self._id,
            identity.producer_id,
            identity.epoch,
            record=self._transactions.first_record,
            is_empty=not self._transactions.is_started,
        )

    def add_partitions(self, *, deadline_ms: int, when_done: Callable[[], None]) -> None:
        """Add the waiting partitions, in a task; `when_done` is called after it."""
        if self._adding is None:
            self._adding = asyncio.get_running_loop().create_task(
                self._add_partitions(deadline_ms, when_done)
            )

    def check_fenced(self, *, deadline_ms: int, when_done: Callable[[], None]) -> None:
        """Find out why a partition leader rejects the epoch, in a task; `when_done` is called after it.

        Either a newer producer has the transactional id, or the transaction exceeded its timeout. The transaction is
        lost in both cases, so EndTxn(abort) is sent, and its response tells which.
        """
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(
                self._check_fenced(deadline_ms, when_done)
            )

    async def _check_fenced(self, deadline_ms: int, when_done: Callable[[], None]) -> None:
        try:
            self._aborted_as = await self._end(is_commit=False, deadline_ms=deadline_ms)
        except errors.PenstockError as error:
            logger.info("%s: could not check whether the producer is fenced: %s", self._id, error)
        finally:
            self._checking = None
        when_done()

    def stop(self) -> None:
        for task in (self._adding, self._checking):
            if task is not None:
                task.cancel()

    async def _add_partitions(self, deadline_ms: int, when_done: Callable[[], None]) -> None:
        wanted = self._transactions.partitions_to_add()
        identity = self._idempotence.identity
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        try:
            response = await self._ask_transaction(
                request, deadline_ms=deadline_ms, version_max=CLIENT_ADD_VERSION
            )
            for topic in response.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    code = result.partition_error_code
                    if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
                        place = TopicPartition(topic.name, result.partition_index)
                        raise errors.of(code, about=place)
            self._transactions.partitions_added(wanted)
        except errors.PenstockError as error:
            self._transactions.take_coordinator_error(error)
        finally:
            self._adding = None
        when_done()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Offset], group: GroupMetadata, *, deadline_ms: int
    ) -> None:
        """Commit these offsets with the transaction."""
        self._transactions.check_send()
        if not offsets:
            return
        if not self._transactions.is_implicit:
            await self._add_offsets(group.group_id, deadline_ms=deadline_ms)
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
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_offset(index, offsets[TopicPartition(topic, index)]) for index in indexes],
                )
                for topic, indexes in by_topic(offsets).items()
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
            for result in topic.partitions:
                self._check(result.error_code, about=group.group_id)

    async def _add_offsets(self, group_id: str, *, deadline_ms: int) -> None:
        identity = self._idempotence.identity
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        response = await self._ask_transaction(request, deadline_ms=deadline_ms)
        self._check(response.error_code, about=group_id)
        self._transactions.started()

    async def end(self, *, is_commit: bool, deadline_ms: int) -> None:
        """Send EndTxn, when no batch is in flight and the state machine is ENDING."""
        if self._transactions.is_started:
            identity = None if is_commit else self._aborted_as
            if identity is None:
                identity = await self._end(is_commit=is_commit, deadline_ms=deadline_ms)
            self._idempotence.restart(identity)
        self._aborted_as = None
        self.open_identity = None
        must_bump_epoch = self._transactions.must_bump_epoch and not self._transactions.is_implicit
        self._transactions.ended()
        if must_bump_epoch:
            await self.bump_epoch(deadline_ms=deadline_ms)

    async def _end(self, *, is_commit: bool, deadline_ms: int) -> ProducerIdAndEpoch:
        """The producer id and epoch from now on, from the coordinator's response."""
        identity = self._idempotence.identity
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        version_max = None if self._transactions.is_implicit else EXPLICIT_END_VERSION
        response = await self._ask_transaction(request, deadline_ms=deadline_ms, version_max=version_max)
        self._check(response.error_code, about=self._id)
        if response.producer_id >= 0:
            identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        return identity

    def _check(self, code: ErrorCode, *, about: str) -> None:
        """Raises the coordinator's error, after the state machine has taken it."""
        if code is not ErrorCode.NONE:
            raise self._transactions.take_coordinator_error(errors.of(code, about=about))

    async def _ask_transaction(
        self, request: Any, *, deadline_ms: int, version_max: int | None = None
    ) -> Any:
        kind = CoordinatorKind.TRANSACTION
        return await self._ask(kind, self._id, request, deadline_ms=deadline_ms, version_max=version_max)

    async def _ask(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Any,
        *,
        deadline_ms: int,
        version_max: int | None = None,
    ) -> Any:
        """The coordinator's response; retries while the error is retriable or the coordinator cannot be reached."""
        failures = 0
        while True:
            try:
                response = await self._ask_once(kind, key, request, deadline_ms, version_max)
                error = _retriable_error(response, key)
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
                raise errors.TimedOut(f"no response to {type(request).__name__} in time: {error}") from error
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


def _offset(index: int, offset: Offset) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _retriable_error(response: Any, key: str) -> errors.PenstockError | None:
    """The first retriable error in the response, if there is one."""
    code = next((code for code in error_codes(response) if code.is_retriable), None)
    return None if code is None else errors.of(code, about=key)
