"""The group coordinator for the broker's handlers: it finds the shard of each group."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from penstock.config.broker import BrokerSettings
from penstock.config.group import GroupSettings
from penstock.coordinator.group.context import GroupDependencies
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.result import CoordinatorResult, Guard
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.serde import RecordSerde
from penstock.coordinator.shard import ShardContext
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import Compression

if TYPE_CHECKING:
    from penstock.coordinator.group.shard import GroupShard
    from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
    from penstock.records.control import TxnMarkerEntry

R = TypeVar("R")


class GroupCoordinator:
    def __init__(
        self,
        *,
        log: CoordinatorLog,
        image: Callable[[], MetadataImage],
        settings: Callable[[], BrokerSettings],
        group_settings: Callable[[str], GroupSettings],
        wall_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        dependencies = GroupDependencies(image, settings, group_settings, rng)
        compression = Compression(settings().get("offsets.topic.compression.codec"))  # read-only
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            topic=OFFSETS_TOPIC,
            log=log,
            make_framing=_make_framing,
            make_shard=lambda context: _make_shard(context, dependencies),
            wall_ms=wall_ms,
            compression=lambda: compression,
            commit_timeout_ms=lambda: settings().get("offsets.commit.timeout.ms"),
        )
        self._partition_count = 0

    # -- for handlers

    def write(
        self, group_id: str, decide: Callable[[GroupShard], CoordinatorResult[R]]
    ) -> R | asyncio.Future[R]:
        return self._runtime.write(self.partition_of(group_id), decide)

    def read(self, group_id: str, query: Callable[[GroupShard], R]) -> R:
        return self._runtime.read(self.partition_of(group_id), query)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, *, guard: Guard | None = None
    ) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
        """Offsets that take effect when the producer's transaction is committed. Its coordinator has verified them."""
        return self.write(
            request.group_id,
            lambda shard: shard.transactional_commits.commit(request, version=version, guard=guard),
        )

    def shards(self) -> Iterator[GroupShard]:
        """The shards that this node serves now; more follow if `is_loading`."""
        return self._runtime.shards()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` for a group. `Refused` while the topic does not exist."""
        if not self._partition_count:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the topic {OFFSETS_TOPIC} does not exist yet; try again",
            )
        return partition_of(group_id, self._partition_count)

    # -- for the node

    def end_transaction(self, partition: int, marker: TxnMarkerEntry) -> asyncio.Future[None] | None:
        """Write a transaction marker to a partition of `__consumer_offsets`; done when it is committed there.

        `Refused` also if another node coordinates that partition, or this node is still loading it."""
        return self._runtime.end_transaction(partition, marker)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Groups do not need the leader epoch."""
        self._runtime.elected(partition)

    def resigned(self, partition: int) -> None:
        self._runtime.resigned(partition)

    def metadata_changed(self, delta: MetadataDelta) -> None:
        """Called after the partitions have applied the change, and after elections."""
        topic = delta.image.topics.get(OFFSETS_TOPIC)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        if delta.topics:
            self._runtime.write_to_all_shards(lambda shard: shard.metadata_changed(delta))

    async def close(self) -> None:
        await self._runtime.close()


# What follows is imported with the first partition that this node leads, so that a node without groups starts faster:
# bench "start to first answer".


def _make_framing() -> RecordSerde:
    from penstock.coordinator.group.records import BLOCKS, TYPES, WRITERS

    return RecordSerde(TYPES, WRITERS, BLOCKS)


def _make_shard(context: ShardContext, dependencies: GroupDependencies) -> GroupShard:
    from penstock.coordinator.group.shard import GroupShard

    return GroupShard(context, dependencies)
