"""The transaction coordinator for the broker's handlers: it finds the shard of each transactional id.

Errors are raised as `Refused`, by the call itself or by the future that it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.config.broker import BrokerSettings
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.result import CoordinatorResult
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.serde import RecordSerde
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.txn.context import TransactionDependencies
from penstock.coordinator.txn.markers import MarkerWriter
from penstock.coordinator.txn.transaction import ProducerIdAndEpoch, TopicPartition
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.records.control import EPOCH_BUMPS

if TYPE_CHECKING:
    from penstock.coordinator.txn.shard import TransactionShard

R = TypeVar("R")

TRANSACTION_VERSION = "transaction.version"

INIT_PRODUCER_ID_FENCED = 4
END_TXN_FENCED = 2
"""The first versions that have PRODUCER_FENCED."""
END_TXN_EPOCH_BUMPS = 5
"""The first version whose response has the next producer epoch."""


class ProducerIds(Protocol):
    """Producer ids that are unique in the cluster (`broker.producer_ids`)."""

    def take_now(self) -> int | None:
        """A new id, or None if no id is available now."""
        ...

    async def take(self) -> int: ...


class _NeedsProducerId(Exception):
    """A decision needs a producer id, and none is available. It has changed nothing."""


class TransactionCoordinator:
    def __init__(
        self,
        *,
        log: CoordinatorLog,
        image: Callable[[], MetadataImage],
        settings: Callable[[], BrokerSettings],
        producer_ids: ProducerIds,
        markers: MarkerWriter,
        wall_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._wall_ms = wall_ms
        self._producer_ids = producer_ids
        self._spare_ids: list[int] = []
        """Fetched for decisions that will be retried."""
        self._leader_epochs: dict[int, int] = {}
        self._partition_count = 0
        self._tasks: set[asyncio.Task[object]] = set()
        dependencies = TransactionDependencies(
            settings=settings,
            transaction_version=lambda: image().features.get(TRANSACTION_VERSION, 0),
            coordinator_epoch=self._leader_epochs.__getitem__,
            markers=markers,
            new_producer_id=self._take_producer_id,
            write=lambda partition, decide: self._runtime.write_quietly(partition, decide),
        )
        self._runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic=TRANSACTIONS_TOPIC,
            log=log,
            make_framing=_make_framing,
            make_shard=lambda context: _make_shard(context, dependencies),
            wall_ms=wall_ms,
        )

    # -- for handlers

    def init_producer_id(
        self, request: InitProducerIdRequest, *, version: int
    ) -> InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]:
        """For a transactional id. An idempotent producer needs no coordinator."""
        transactional_id = request.transactional_id
        if not transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if (request.producer_id == NO_PRODUCER_ID) is not (request.producer_epoch == NO_PRODUCER_EPOCH):
            raise Refused(
                ErrorCode.INVALID_REQUEST, "the request must have both a producer id and an epoch, or neither"
            )
        self._check_timeout(request)

        def decide(shard: TransactionShard) -> CoordinatorResult[InitProducerIdResponse]:
            with _error_for(version, since=INIT_PRODUCER_ID_FENCED):
                return shard.init_producer_id(transactional_id, request)

        return self._decide(transactional_id, decide)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        is_version_2: bool,
    ) -> dict[TopicPartition, ErrorCode] | asyncio.Future[dict[TopicPartition, ErrorCode]]:
        if not transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        partition = self.partition_of(transactional_id)
        if verify_only:
            return self._runtime.write(
                partition, lambda shard: shard.verify_partitions(transactional_id, producer, partitions)
            )
        client_version = EPOCH_BUMPS if is_version_2 else 0
        return self._runtime.write(
            partition,
            lambda shard: shard.add_partitions(
                transactional_id, producer, partitions, client_version=client_version
            ),
        )

    def end(self, request: EndTxnRequest, *, version: int) -> EndTxnResponse | asyncio.Future[EndTxnResponse]:
        if not request.transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        client_version = EPOCH_BUMPS if version >= END_TXN_EPOCH_BUMPS else 0

        def decide(shard: TransactionShard) -> CoordinatorResult[EndTxnResponse]:
            with _error_for(version, since=END_TXN_FENCED):
                return shard.end(request, client_version=client_version)

        return self._decide(request.transactional_id, decide)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Committed state, or an error code."""
        try:
            if not transactional_id:
                raise Refused(ErrorCode.INVALID_REQUEST)
            return self._runtime.read(
                self.partition_of(transactional_id), lambda shard: shard.describe(transactional_id)
            )
        except Refused as refusal:
            return DescribedTransaction(
                error_code=refusal.error,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=0,
                producer_id=0,
                producer_epoch=0,
                topics=[],
            )

    def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """The committed transactions of this node. `Refused` while shards are loading."""
        if self._runtime.is_loading:
            raise Refused(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the transaction coordinator is loading; try again"
            )
        from penstock.coordinator.txn.listing import TransactionFilter  # imports the regex library

        selection = TransactionFilter(request)
        now_ms = self._wall_ms()
        return ListTransactionsResponse(
            unknown_state_filters=selection.unknown_states,
            transaction_states=[
                listed
                for shard in self._runtime.shards()
                for listed in selection.of(shard.transactions.committed_items(), now_ms=now_ms)
            ],
        )

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` for a transactional id. `Refused` while the topic does not exist."""
        if not self._partition_count:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the topic {TRANSACTIONS_TOPIC} does not exist yet; try again",
            )
        return partition_of(transactional_id, self._partition_count)

    def shards(self) -> Iterator[TransactionShard]:
        """The shards that this node serves now; more follow if `is_loading`."""
        return self._runtime.shards()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    # -- for the node

    def elected(self, partition: int, leader_epoch: int) -> None:
        self._leader_epochs[partition] = leader_epoch
        self._runtime.elected(partition)

    def resigned(self, partition: int) -> None:
        self._runtime.resigned(partition)

    def metadata_changed(self, delta: MetadataDelta) -> None:
        """Called after the partitions have applied the change, and after elections."""
        topic = delta.image.topics.get(TRANSACTIONS_TOPIC)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        if delta.topics:
            for shard in self._runtime.shards():
                shard.leaders_changed()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runtime.close()

    # -- producer ids

    def _decide(
        self, transactional_id: str, decide: Callable[[TransactionShard], CoordinatorResult[R]]
    ) -> R | asyncio.Future[R]:
        """Apply a decision that may need a producer id."""
        try:
            return self._runtime.write(self.partition_of(transactional_id), decide)
        except _NeedsProducerId:
            task = asyncio.get_running_loop().create_task(
                self._decide_with_new_id(transactional_id, decide), name=f"producer id for {transactional_id}"
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return task

    async def _decide_with_new_id(
        self, transactional_id: str, decide: Callable[[TransactionShard], CoordinatorResult[R]]
    ) -> R:
        while True:
            try:
                self._spare_ids.append(await self._producer_ids.take())
            except Refused as refusal:
                # An error of the controller would be fatal for older producers; this one is retried.
                raise Refused(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer id is available: {refusal}"
                ) from refusal
            try:
                response = self._runtime.write(self.partition_of(transactional_id), decide)
            except _NeedsProducerId:
                continue  # another decision took the id
            return await response if isinstance(response, asyncio.Future) else response

    def _take_producer_id(self) -> int:
        if self._spare_ids:
            return self._spare_ids.pop()
        producer_id = self._producer_ids.take_now()
        if producer_id is None:
            raise _NeedsProducerId
        return producer_id

    # -- helpers

    def _check_timeout(self, request: InitProducerIdRequest) -> None:
        settings = self._settings()
        if request.enable_2pc:
            if not settings.get("transaction.two.phase.commit.enable"):
                raise Refused(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    "transaction.two.phase.commit.enable is false on this broker",
                )
            return
        max_ms: int = settings.get("transaction.max.timeout.ms")
        if not 0 < request.transaction_timeout_ms <= max_ms:
            raise Refused(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms={request.transaction_timeout_ms} must be between 1 and "
                f"transaction.max.timeout.ms={max_ms} of the broker",
            )


@contextmanager
def _error_for(version: int, *, since: int) -> Iterator[None]:
    """Older versions have INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED (KIP-588)."""
    try:
        yield
    except Refused as refusal:
        if refusal.error is not ErrorCode.PRODUCER_FENCED or version >= since:
            raise
        raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, refusal.message) from refusal


# What follows is imported with the first partition that this node leads, as for groups.


def _make_framing() -> RecordSerde:
    from penstock.coordinator.txn.records import TransactionSerde

    return TransactionSerde()


def _make_shard(context: ShardContext, dependencies: TransactionDependencies) -> TransactionShard:
    from penstock.coordinator.txn.shard import TransactionShard

    return TransactionShard(context, dependencies)
