"""Groups of every type: list, describe, delete, and remove members.

There are four types. In classic groups a member assigns the partitions; in consumer groups (KIP-848) the broker does;
streams groups (KIP-1071) assign tasks instead of partitions; in share groups (KIP-932) several members read one
partition. One call describes them all: it finds out the type of each group.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls, Call
from penstock.client.admin.operations import AclOperation, UnknownMember
from penstock.client.admin.results import Results, only
from penstock.client.cluster import Node, TopicPartition
from penstock.client.cluster_client import CoordinatorKind
from penstock.client.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.admin.wire.groups import DescribeApi


class GroupType(enum.StrEnum):
    """The protocol of a group."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    STREAMS = "Streams"
    SHARE = "Share"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, name: object) -> GroupType:
        # Brokers spell it in more than one way.
        return next((each for each in cls if each.lower() == str(name).lower()), cls.UNKNOWN)


class GroupState(UnknownMember, enum.StrEnum):
    """The names that brokers use. The possible states depend on the type."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    EMPTY = "Empty"
    DEAD = "Dead"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group in the result of `list_groups`."""

    group_id: str
    type: GroupType
    protocol: str
    """`consumer` in both consumer protocols; `connect`, `share`, `streams`; empty for offsets without members."""
    state: GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """The part of a member that all types have."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    assignment: frozenset[TopicPartition] = frozenset()
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember(GroupMember):
    """A member of a consumer group, or of a share group, which has no target assignment."""

    epoch: int
    subscribed_topics: tuple[str, ...] = ()
    subscribed_pattern: str | None = None
    target: frozenset[TopicPartition] = frozenset()
    """The target assignment: what it will own after the rebalance."""
    is_classic: bool | None = None
    """Whether it uses the classic protocol in a consumer group; None if the broker does not say."""


Tasks = frozenset[tuple[str, int]]
"""Subtopology and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """The tasks of a member of a streams group."""

    active: Tasks = frozenset()
    standby: Tasks = frozenset()
    warmup: Tasks = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember(GroupMember):
    """A member of a streams group."""

    epoch: int
    topology_epoch: int
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: tuple[tuple[str, str], ...]
    tasks: TaskAssignment
    target: TaskAssignment
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSubtopology:
    """A subtopology of a streams application, with its topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """The part of a description that all types have; the subclass shows the type."""

    type: ClassVar[GroupType] = GroupType.UNKNOWN
    group_id: str
    state: GroupState
    coordinator: Node | None = None
    members: tuple[GroupMember, ...] = ()
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup(GroupDescription):
    """A group of the classic protocol."""

    type: ClassVar[GroupType] = GroupType.CLASSIC
    protocol_type: str
    """`consumer` if the assignments can be decoded; other programs use groups for other purposes."""
    assignor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(GroupDescription):
    """A group of the consumer protocol (KIP-848)."""

    type: ClassVar[GroupType] = GroupType.CONSUMER
    assignor: str
    epoch: int
    assignment_epoch: int
    members: tuple[ConsumerMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroup(GroupDescription):
    """A share group (KIP-932)."""

    type: ClassVar[GroupType] = GroupType.SHARE
    assignor: str
    epoch: int
    assignment_epoch: int
    members: tuple[ConsumerMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroup(GroupDescription):
    """A streams group (KIP-1071)."""

    type: ClassVar[GroupType] = GroupType.STREAMS
    epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[StreamsSubtopology, ...] = ()
    members: tuple[StreamsMember, ...] = ()


NOT_THIS_TYPE = (errors.GroupIdNotFound, errors.UnsupportedVersion)


class GroupsAdmin(AdminCalls):
    async def list_groups(
        self,
        *,
        types: Iterable[GroupType | str] = (),
        states: Iterable[GroupState | str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """The groups of the cluster, by name; optionally only those of the given types and states."""
        call = self._begin("list groups", timeout)
        request = wire.groups.list_request(
            types=[_spelled(GroupType, each) for each in types],
            states=[_spelled(GroupState, each) for each in states],
        )
        responses = await call.ask_all_brokers(request)
        return wire.groups.read_listed(responses.values())

    async def describe_group(
        self,
        group_id: str,
        *,
        type: GroupType | None = None,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> GroupDescription:
        """State, members and assignments of a group. The class of the result shows the group's type."""
        return await only(
            self.describe_groups(
                [group_id],
                type=type,
                include_authorized_operations=include_authorized_operations,
                timeout=timeout,
            )
        )

    async def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        type: GroupType | None = None,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, GroupDescription]:
        """Describe groups of any type, or of the given one."""
        call = self._begin("describe groups", timeout)
        found: dict[str, GroupDescription] = {}
        failed: dict[str, PenstockError] = {}
        left = list(dict.fromkeys(group_ids))
        for form in wire.groups.DESCRIBE_APIS:
            if left and type in (None, form.type):
                described, failures = await self._describe_as(
                    call, form, left, operations=include_authorized_operations
                )
                found |= described
                failed |= failures
                # To each of these APIs a group of another type does not exist, and not every broker serves them all.
                left = [each for each, error in failures.items() if isinstance(error, NOT_THIS_TYPE)]
        return call.finish(found, {each: error for each, error in failed.items() if each not in found})

    async def _describe_as(
        self, call: Call, form: DescribeApi, group_ids: list[str], *, operations: bool
    ) -> tuple[dict[str, GroupDescription], dict[str, PenstockError]]:
        async def ask(node_id: int | None, ids: list[str]) -> Results[str, GroupDescription]:
            response = await call.ask_node(node_id, form.request(ids, operations))
            return form.read(response, None if node_id is None else self._client.node(node_id))

        return await call.retry_each(group_ids, call.to_coordinators(CoordinatorKind.GROUP, ask))

    async def delete_group(self, group_id: str, *, timeout: float | None = None) -> None:
        """Delete a group without members, and its committed offsets."""
        await only(self.delete_groups([group_id], timeout=timeout))

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, None]:
        """Delete groups without members, and their committed offsets."""
        call = self._begin("delete groups", timeout)

        async def ask(node_id: int | None, ids: list[str]) -> Results[str, None]:
            return wire.groups.read_deleted(await call.ask_node(node_id, wire.groups.delete_request(ids)))

        return await call.run_each(group_ids, call.to_coordinators(CoordinatorKind.GROUP, ask))

    async def remove_members(
        self,
        group_id: str,
        *,
        member_ids: Iterable[str] = (),
        instance_ids: Iterable[str] = (),
        reason: str = "removed by an administrator",
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Remove members from a classic or consumer group; all members if none is given."""
        call = self._begin(f"remove members of group {group_id}", timeout)
        members, instances = list(member_ids), list(instance_ids)
        if not members and not instances:
            group = await self.describe_group(group_id, timeout=call.left_s())
            # A static member must be given by its instance id, or the broker does not remove it (KIP-345).
            instances = [each.instance_id for each in group.members if each.instance_id is not None]
            members = [each.member_id for each in group.members if each.instance_id is None]

        async def attempt(names: list[str]) -> Results[str, None]:
            request = wire.groups.leave_request(
                group_id,
                member_ids=[each for each in members if each in names],
                instance_ids=[each for each in instances if each in names],
                reason=reason,
            )
            return wire.groups.read_left(await call.ask_coordinator(CoordinatorKind.GROUP, group_id, request))

        return await call.run_each([*members, *instances], attempt)


E = TypeVar("E", bound=enum.StrEnum)


def _spelled(kind: type[E], name: E | str) -> str:
    """A type or state as brokers spell it, from any spelling: `stable`, `preparing-rebalance`."""
    by_letters = {_letters(each): each for each in kind}
    found = by_letters.get(_letters(name))
    if found is None or found == "Unknown":
        allowed = ", ".join(each for each in kind if each != "Unknown")
        raise errors.BadArgument(f"{name} is not one of {allowed}")
    return found.value


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name)).lower()
