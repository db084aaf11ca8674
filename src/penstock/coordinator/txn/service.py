"""Transactions as the broker's handlers see them: every transaction by its id, wherever its shard is.

Whatever is refused is raised as `Refused`, by the call itself or by the future that it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.config.broker import BrokerSettings
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.outcome import Outcome
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.txn.context import Decide, Surroundings
from penstock.coordinator.txn.markers import MarkerWriter
from penstock.coordinator.txn.records import TransactionFraming
from penstock.coordinator.txn.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Identity,
    TopicPartition,
)
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.records.control import EPOCH_BUMPS

if TYPE_CHECKING:
    from penstock.coordinator.txn.shard import TransactionShard

logger = logging.getLogger(__name__)

R = TypeVar("R")

TRANSACTION_VERSION = "transaction.version"

INIT_PRODUCER_ID_FENCED = 4
END_TXN_FENCED = 2
"""The first versions that know PRODUCER_FENCED."""
END_TXN_EPOCH_BUMPS = 5
"""The first version that tells the producer its next epoch."""


class ProducerIds(Protocol):
    """Numbers that no two producers of a cluster share (`broker.producer_ids`)."""

    def take_now(self) -> int | None:
        """A new id, or None where there is none at hand."""
        ...

    async def take(self) -> int: ...


class _NeedsProducerId(Exception):
    """A decision needs an id, and none is at hand. It has changed nothing."""


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
        """Fetched for decisions that will be made again."""
        self._leader_epochs: dict[int, int] = {}
        self._partition_count = 0
        self._tasks: set[asyncio.Task[object]] = set()
        around = Surroundings(
            settings=settings,
            transaction_version=lambda: image().features.get(TRANSACTION_VERSION, 0),
            coordinator_epoch=self._leader_epochs.__getitem__,
            markers=markers,
            new_producer_id=self._take_producer_id,
            write=self._write_quietly,
        )
        self._runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic=TRANSACTIONS_TOPIC,
            log=log,
            framing=TransactionFraming(),
            make_shard=lambda context: _make_shard(context, around),
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
        if (request.producer_id == NO_PRODUCER_ID) is not (request.producer_epoch == NO_EPOCH):
            raise Refused(
                ErrorCode.INVALID_REQUEST, "the request must have both a producer id and an epoch, or neither"
            )
        self._check_timeout(request)

        def decide(shard: TransactionShard) -> Outcome[InitProducerIdResponse]:
            with _known_to(version, since=INIT_PRODUCER_ID_FENCED):
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
        producer = Identity(producer_id, producer_epoch)
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

        def decide(shard: TransactionShard) -> Outcome[EndTxnResponse]:
            with _known_to(version, since=END_TXN_FENCED):
                return shard.end(request, client_version=client_version)

        return self._decide(request.transactional_id, decide)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """As it is committed. What is refused stands in its error code."""
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
        """Those that this node coordinates, as they are committed. `Refused` while some are being loaded."""
        if self._runtime.is_loading:
            raise Refused(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the transaction coordinator is loading; try again"
            )
        from penstock.coordinator.txn.listing import Selection  # with it comes the engine of patterns

        selection = Selection(request)
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
        """The partition of `__transaction_state` that an id lives in. Refused while there is no such topic."""
        if not self._partition_count:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the topic {TRANSACTIONS_TOPIC} does not exist yet; try again",
            )
        return partition_of(transactional_id, self._partition_count)

    def shards(self) -> Iterator[TransactionShard]:
        """Those that this node serves now; `is_loading` tells whether more are to come."""
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
        """A committed change of the metadata; after the partitions have taken it over, and after elections."""
        topic = delta.image.topics.get(TRANSACTIONS_TOPIC)
        self._partition_count = 0 if topic is None else len(topic.partitions)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runtime.close()

    # -- producer ids

    def _decide(
        self, transactional_id: str, decide: Callable[[TransactionShard], Outcome[R]]
    ) -> R | asyncio.Future[R]:
        """Of decisions that may need a producer id."""
        try:
            return self._runtime.write(self.partition_of(transactional_id), decide)
        except _NeedsProducerId:
            task = asyncio.get_running_loop().create_task(
                self._decide_later(transactional_id, decide), name=f"producer id for {transactional_id}"
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return task

    async def _decide_later(
        self, transactional_id: str, decide: Callable[[TransactionShard], Outcome[R]]
    ) -> R:
        while True:
            try:
                self._spare_ids.append(await self._producer_ids.take())
            except Refused as refusal:
                # Producers know nothing of controllers; older ones take an error that they do not expect for the end.
                raise Refused(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer id is available: {refusal}"
                ) from refusal
            try:
                response = self._runtime.write(self.partition_of(transactional_id), decide)
            except _NeedsProducerId:
                continue  # others were quicker
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

    def _write_quietly(self, partition: int, decide: Decide) -> bool:
        try:
            result = self._runtime.write(partition, decide)
        except Refused as refusal:
            logger.warning("%s-%d cannot be written: %s", TRANSACTIONS_TOPIC, partition, refusal)
            return False
        if isinstance(result, asyncio.Future):
            result.add_done_callback(_forget)
        return True


@contextmanager
def _known_to(version: int, *, since: int) -> Iterator[None]:
    """Producers that speak an older version know PRODUCER_FENCED by another name (KIP-588)."""
    try:
        yield
    except Refused as refusal:
        if refusal.error is not ErrorCode.PRODUCER_FENCED or version >= since:
            raise
        raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, refusal.message) from refusal


def _make_shard(context: ShardContext, around: Surroundings) -> TransactionShard:
    # All that knows transactions is imported with the first partition that this node leads, as for groups.
    from penstock.coordinator.txn.shard import TransactionShard

    return TransactionShard(context, around)


def _forget(future: asyncio.Future[None]) -> None:
    """Nobody waits for it; where it was not committed another coordinator comes to the same end."""
    if not future.cancelled():
        future.exception()
