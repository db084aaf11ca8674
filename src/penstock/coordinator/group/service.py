"""Groups as the broker's handlers see them: every group by its id, wherever its shard is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from penstock.config.broker import BrokerSettings
from penstock.config.group import GroupSettings
from penstock.coordinator.framing import RecordFraming
from penstock.coordinator.group.context import Surroundings
from penstock.coordinator.group.records import BLOCKS, TYPES, WRITERS
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.outcome import Guard, Outcome
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.runtime import CoordinatorRuntime
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
    from penstock.records.control import EndedTransaction

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
        around = Surroundings(image, settings, group_settings, rng)
        compression = Compression(settings().get("offsets.topic.compression.codec"))  # not to be changed
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            topic=OFFSETS_TOPIC,
            log=log,
            framing=RecordFraming(TYPES, WRITERS, BLOCKS),
            make_shard=lambda context: _make_shard(context, around),
            wall_ms=wall_ms,
            compression=lambda: compression,
            commit_timeout_ms=lambda: settings().get("offsets.commit.timeout.ms"),
        )
        self._partition_count = 0

    # -- for handlers

    def write(self, group_id: str, decide: Callable[[GroupShard], Outcome[R]]) -> R | asyncio.Future[R]:
        return self._runtime.write(self.partition_of(group_id), decide)

    def read(self, group_id: str, question: Callable[[GroupShard], R]) -> R:
        return self._runtime.read(self.partition_of(group_id), question)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, *, guard: Guard | None = None
    ) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
        """Offsets that hold once the producer's transaction is committed; its coordinator knows of them already."""
        return self.write(
            request.group_id,
            lambda shard: shard.transactional_commits.commit(request, version=version, guard=guard),
        )

    def shards(self) -> Iterator[GroupShard]:
        """Those that this node serves now; `is_loading` tells whether more are to come."""
        return self._runtime.shards()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group lives in. Refused while there is no such topic."""
        if not self._partition_count:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the topic {OFFSETS_TOPIC} does not exist yet; try again",
            )
        return partition_of(group_id, self._partition_count)

    # -- for the node

    def end_transaction(self, partition: int, marker: EndedTransaction) -> asyncio.Future[None] | None:
        """Write a transaction's end into a partition of `__consumer_offsets`; done when it is committed there.

        `Refused` also where another node coordinates that partition, or this one is still loading it."""
        return self._runtime.end_transaction(partition, marker)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Groups have no use for the epoch; what they write carries that of the partition."""
        self._runtime.elected(partition)

    def resigned(self, partition: int) -> None:
        self._runtime.resigned(partition)

    def metadata_changed(self, delta: MetadataDelta) -> None:
        """A committed change of the metadata; after the partitions have taken it over, and after elections."""
        topic = delta.image.topics.get(OFFSETS_TOPIC)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        if delta.topics:
            self._runtime.write_all(lambda shard: shard.metadata_changed(delta))

    async def close(self) -> None:
        await self._runtime.close()


def _make_shard(context: ShardContext, around: Surroundings) -> GroupShard:
    # All that knows groups is imported here, with the first partition that this node leads, because a node without
    # groups shall be up in a fraction of a second: bench "start to first answer".
    from penstock.coordinator.group.shard import GroupShard

    return GroupShard(context, around)
