"""One shard of groups: it combines the types of groups and offsets, and routes requests to them by the type of the
group.

Members that have not been upgraded send the classic APIs to a consumer group. ConsumerGroupHeartbeat to a classic group
upgrades it (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordinator.group.administration import Administration
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.groups import ConsumerGroups
from penstock.coordinator.group.context import GroupContext, GroupDependencies
from penstock.coordinator.group.offsets.offsets import Offsets
from penstock.coordinator.group.offsets.transactional_commit import TransactionalCommits
from penstock.coordinator.group.streams.groups import StreamsGroups
from penstock.coordinator.result import CoordinatorResult
from penstock.coordinator.shard import ShardContext
from penstock.metadata.delta import MetadataDelta
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class GroupShard:
    def __init__(self, shard: ShardContext, dependencies: GroupDependencies) -> None:
        self.context = GroupContext(shard, dependencies)
        self.classic = ClassicGroups(self.context)
        self.consumer = ConsumerGroups(self.context, self.classic)
        self.streams = StreamsGroups(self.context)
        self.offsets = Offsets(self.context)
        self.transactional_commits = TransactionalCommits(self.context, self.offsets)
        self.administration = Administration(self.context, self.offsets, self.classic)
        self._parts = (self.offsets, self.classic, self.consumer, self.streams)
        self._replays: dict[type, Callable[[Any, Any], None]] = {}
        for part in self._parts:
            self._replays.update(part.replays)

    # -- for the runtime

    def replay(self, key: Any, value: Any | None) -> None:
        self._replays[type(key)](key, value)

    def replay_in_transaction(self, producer_id: int, key: Any, value: Any | None) -> None:
        self.transactional_commits.replay(producer_id, key, value)

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        self.transactional_commits.ended(producer_id, is_commit=is_commit)

    def loaded(self) -> None:
        for part in self._parts:
            part.loaded()

    def unloaded(self) -> None:
        for part in self._parts:
            part.unloaded()

    def metadata_changed(self, delta: MetadataDelta) -> CoordinatorResult[None]:
        self.consumer.metadata_changed(delta)
        self.streams.metadata_changed(delta)
        return CoordinatorResult(None, self.offsets.metadata_changed(delta))

    # -- the classic APIs, for classic and consumer groups

    def join(
        self, request: JoinGroupRequest, *, client: Client, version: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.join(group, request, client=client, version=version)
        return self.classic.join(request, client=client, version=version)

    def sync(self, request: SyncGroupRequest, *, version: int) -> CoordinatorResult[SyncGroupResponse]:
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.sync(group, request, version=version)
        return self.classic.sync(request, version=version)

    def heartbeat(self, request: HeartbeatRequest, *, version: int) -> CoordinatorResult[HeartbeatResponse]:
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic_heartbeat(group, request, version=version)
        return self.classic.heartbeat(request, version=version)

    def leave(self, request: LeaveGroupRequest, *, version: int) -> CoordinatorResult[LeaveGroupResponse]:
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.leave(group, request, version=version)
        return self.classic.leave(request, version=version)
