"""The group coordinator over an in-memory log, called like the handlers do: offsets committed in transactions.

Everything runs on a virtual clock (`play`). `taken_over` is another node that has loaded the same log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from harness.coordinator_log import ListLog
from harness.datapath import Cluster
from harness.offsets import (
    COMMIT_VERSION,
    GROUP,
    FetchedOffset,
    commit_request,
    delete_request,
    fetch_request,
    fetched_offsets,
)
from penstock.config.broker import BrokerSettings
from penstock.config.group import GroupSettings
from penstock.coordinator.group.service import GroupCoordinator
from penstock.coordinator.group.shard import GroupShard
from penstock.coordinator.result import CoordinatorResult
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.records.control import TxnMarkerEntry
from simulator.loop import EPOCH_MS, VirtualLoop, run_virtual

TXN_VERSION = 5
PRODUCER = 7

Offsets = Mapping[str, Mapping[int, int]]


class CoordinatorHarness:
    """Topics "orders" with 3 partitions and "payments" with 1."""

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        self.settings = BrokerSettings.load(properties or {})
        self.cluster = Cluster()
        self.cluster.add_topic("orders", partitions=3)
        self.cluster.add_topic("payments")
        self.log = ListLog()
        self._unanswered: list[asyncio.Future[Any]] = []
        self._start()

    def _start(self) -> None:
        self.groups = GroupCoordinator(
            log=self.log,
            image=lambda: self.cluster.metadata.image,
            settings=lambda: self.settings,
            group_settings=lambda group_id: GroupSettings.resolve(self.settings, {}),
            wall_ms=lambda: EPOCH_MS + round(asyncio.get_running_loop().time() * 1000),
            rng=random.Random(1),
        )
        self.groups.elected(0, 0)
        self.cluster.metadata.subscribe(self._metadata_changed)
        if self.cluster.metadata.image.topics.get(OFFSETS_TOPIC) is None:
            self.cluster.add_topic(OFFSETS_TOPIC)
        else:
            self.cluster.publish()

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        self.groups.metadata_changed(delta)

    async def take_over(self) -> None:
        """Another node leads now, and has loaded the log."""
        await self.groups.close()
        self.cluster.metadata.unsubscribe(self._metadata_changed)
        self._start()
        while self.groups.is_loading:
            await asyncio.sleep(0.01)

    @property
    def shard(self) -> GroupShard:
        return self.groups.read(GROUP, lambda shard: shard)

    def hold(self) -> None:
        """Commit nothing until `release`. Requests in between are answered then."""
        self.log.commits_at_once = False

    def release(self) -> None:
        self.log.commits_at_once = True
        if self.log.ends:
            self.log.commit()
        waiting, self._unanswered = self._unanswered, []
        for answer in waiting:
            answer.result()

    def _answer(self, answer: Any) -> Any:
        """None if it has to wait."""
        if not isinstance(answer, asyncio.Future):
            return answer
        assert not self.log.commits_at_once
        self._unanswered.append(answer)
        return None

    # -- requests

    def commit(self, offsets: Offsets, *, group: str = GROUP) -> None:
        """Outside of transactions."""
        request = commit_request(offsets, group=group)
        self._answer(
            self.groups.write(group, lambda shard: shard.offsets.commit(request, version=COMMIT_VERSION))
        )

    def commit_in_transaction(
        self, offsets: Offsets, *, producer: int = PRODUCER, version: int = TXN_VERSION, **fields: Any
    ) -> list[ErrorCode]:
        request = transactional_request(offsets, producer=producer, **fields)
        response = self._answer(self.groups.commit_in_transaction(request, version))
        return [] if response is None else errors_of(response)

    def end(self, producer: int = PRODUCER, *, commit: bool = True) -> None:
        self._answer(self.groups.end_transaction(0, TxnMarkerEntry(producer, 0, 0, commit, 1)))

    def delete(self, partitions: Mapping[str, Sequence[int]], *, group: str = GROUP) -> None:
        request = delete_request(partitions, group=group)
        self._answer(self.groups.write(group, lambda shard: shard.offsets.delete(request)))

    def delete_group(self, group: str = GROUP) -> None:
        """If it exists."""
        self._answer(self.groups.write(group, lambda shard: shard.administration.delete([group])))

    def fetch(
        self,
        partitions: Mapping[str, Sequence[int]] | None = None,
        *,
        group: str = GROUP,
        stable: bool = False,
        by_id: bool = False,
    ) -> dict[tuple[str, int], FetchedOffset]:
        request, version = fetch_request(partitions, group=group, by_id=by_id), 10 if by_id else 9
        if not stable:
            return fetched_offsets(
                self.groups.read(
                    group,
                    lambda shard: shard.offsets.fetch(request, require_stable=False, version=version),
                )
            )
        response: Any = self.groups.write(
            group,
            lambda shard: CoordinatorResult(
                shard.offsets.fetch(request, require_stable=True, version=version)
            ),
        )
        return fetched_offsets(response)

    def stored(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        """The offsets that a consumer gets without require_stable."""
        return {where: answer[0] for where, answer in self.fetch(group=group).items()}


def transactional_request(
    offsets: Offsets,
    *,
    group: str = GROUP,
    producer: int = PRODUCER,
    epoch: int = 0,
    member: str = "",
    instance: str | None = None,
    generation: int = -1,
    metadata: str | None = "",
    leader_epoch: int = -1,
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="transformer",
        group_id=group,
        producer_id=producer,
        producer_epoch=epoch,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    )
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ],
    )


def errors_of(response: TxnOffsetCommitResponse) -> list[ErrorCode]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def play(
    scenario: Callable[[CoordinatorHarness], Awaitable[None]], properties: dict[str, str] | None = None
) -> None:
    async def main() -> None:
        harness = CoordinatorHarness(properties)
        await scenario(harness)
        await harness.groups.close()

    run_virtual(VirtualLoop(), main())
