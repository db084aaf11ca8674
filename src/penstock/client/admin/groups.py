"""Groups of every type: list, describe, delete, and have members leave.

There are four types. Classic groups decide among their members who reads what; consumer groups (KIP-848) have the
broker decide; streams groups (KIP-1071) share out tasks rather than partitions; share groups (KIP-932) have several
members read one partition. One call describes all of them: it finds out which type each group has.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls, Call
from penstock.client.admin.operations import AclOperation
from penstock.client.admin.outcome import Answers, only
from penstock.client.cluster import Node, TopicPartition
from penstock.client.cluster_client import CoordinatorKind
from penstock.client.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.admin.wire.groups import GroupForm


class GroupType(enum.StrEnum):
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    STREAMS = "Streams"
    SHARE = "Share"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, name: object) -> GroupType:
        # Brokers spell it in more than one way.
        return next((each for each in cls if each.lower() == str(name).lower()), cls.UNKNOWN)


class GroupState(enum.StrEnum):
    """As brokers spell it. Which of them there are depends on the type."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    EMPTY = "Empty"
    DEAD = "Dead"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, name: object) -> GroupState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    group_id: str
    type: GroupType
    protocol: str
    """`consumer` in both protocols of consumers; `connect`, `share`, `streams`; empty for offsets without members."""
    state: GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member, as far as all types have the same to tell."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    assignment: frozenset[TopicPartition] = frozenset()
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember(GroupMember):
    """A member of a consumer group; also of a share group, which has no targets."""

    epoch: int
    subscribed_topics: tuple[str, ...] = ()
    subscribed_pattern: str | None = None
    target: frozenset[TopicPartition] = frozenset()
    """What it will have when the group has settled."""
    is_classic: bool | None = None
    """Whether it speaks the old protocol in a group of the new one; None where the broker does not tell."""


Tasks = frozenset[tuple[str, int]]
"""Subtopology and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    active: Tasks = frozenset()
    standby: Tasks = frozenset()
    warmup: Tasks = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember(GroupMember):
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
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """What every type tells; the subclass is the type."""

    type: ClassVar[GroupType] = GroupType.UNKNOWN
    group_id: str
    state: GroupState
    coordinator: Node | None = None
    members: tuple[GroupMember, ...] = ()
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup(GroupDescription):
    type: ClassVar[GroupType] = GroupType.CLASSIC
    protocol_type: str
    """`consumer` where the assignments can be read; other programs use groups for their own ends."""
    assignor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(GroupDescription):
    type: ClassVar[GroupType] = GroupType.CONSUMER
    assignor: str
    epoch: int
    assignment_epoch: int
    members: tuple[ConsumerMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroup(GroupDescription):
    type: ClassVar[GroupType] = GroupType.SHARE
    assignor: str
    epoch: int
    assignment_epoch: int
    members: tuple[ConsumerMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroup(GroupDescription):
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
        """The groups of the cluster by name; only of the given types and in the given states, if any are given."""
        call = self._begin("list groups", timeout)
        request = wire.groups.list_request(
            types=[_spelled(GroupType, each) for each in types],
            states=[_spelled(GroupState, each) for each in states],
        )
        responses = await call.everywhere(request)
        return wire.groups.read_listed(responses.values())

    async def describe_group(
        self,
        group_id: str,
        *,
        type: GroupType | None = None,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> GroupDescription:
        """State, members and assignments of a group; the class of what is returned tells the group's type."""
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
        """Describe groups of any types, or only of one."""
        call = self._begin("describe groups", timeout)
        found: dict[str, GroupDescription] = {}
        failed: dict[str, PenstockError] = {}
        left = list(dict.fromkeys(group_ids))
        for form in wire.groups.FORMS:
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
        self, call: Call, form: GroupForm, group_ids: list[str], *, operations: bool
    ) -> tuple[dict[str, GroupDescription], dict[str, PenstockError]]:
        async def ask(node_id: int | None, ids: list[str]) -> Answers[str, GroupDescription]:
            response = await call.ask_node(node_id, form.request(ids, operations))
            return form.read(response, None if node_id is None else self._client.node(node_id))

        return await call.settle(group_ids, call.to_coordinators(CoordinatorKind.GROUP, ask))

    async def delete_group(self, group_id: str, *, timeout: float | None = None) -> None:
        """Forget a group without members and all its offsets."""
        await only(self.delete_groups([group_id], timeout=timeout))

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, None]:
        call = self._begin("delete groups", timeout)

        async def ask(node_id: int | None, ids: list[str]) -> Answers[str, None]:
            return wire.groups.read_deleted(await call.ask_node(node_id, wire.groups.delete_request(ids)))

        return await call.each(group_ids, call.to_coordinators(CoordinatorKind.GROUP, ask))

    async def remove_members(
        self,
        group_id: str,
        *,
        member_ids: Iterable[str] = (),
        instance_ids: Iterable[str] = (),
        reason: str = "removed by an administrator",
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Have members leave a classic or consumer group; all that there are, if none is named."""
        call = self._begin(f"remove members of group {group_id}", timeout)
        members, instances = list(member_ids), list(instance_ids)
        if not members and not instances:
            group = await self.describe_group(group_id, timeout=call.left_s())
            # A static member has to be named by its instance, or the broker does not let it go (KIP-345).
            instances = [each.instance_id for each in group.members if each.instance_id is not None]
            members = [each.member_id for each in group.members if each.instance_id is None]

        async def attempt(names: list[str]) -> Answers[str, None]:
            request = wire.groups.leave_request(
                group_id,
                member_ids=[each for each in members if each in names],
                instance_ids=[each for each in instances if each in names],
                reason=reason,
            )
            return wire.groups.read_left(await call.ask_coordinator(CoordinatorKind.GROUP, group_id, request))

        return await call.each([*members, *instances], attempt)


E = TypeVar("E", bound=enum.StrEnum)


def _spelled(kind: type[E], name: E | str) -> str:
    """A type or state as brokers spell it, however the caller wrote it: `stable`, `preparing-rebalance`."""
    by_letters = {_letters(each): each for each in kind}
    found = by_letters.get(_letters(name))
    if found is None or found == "Unknown":
        allowed = ", ".join(each for each in kind if each != "Unknown")
        raise errors.BadArgument(f"{name} is not one of {allowed}")
    return found.value


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name)).lower()
