"""The state that every type of modern group has, and the checks that depend on nothing else.

Replicated state lives in the timeline: the epochs, the members and their target assignments. Only replay (`groups`)
changes it; the methods for that must accept any order that compaction may leave. An upgrade from classic also calls
them, on a temporary group. Indexes over this state are kept for the newest state only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic

from penstock.coordinator.group.group import Group, PartitionCheck
from penstock.coordinator.group.modern.member import NO_EPOCH
from penstock.coordinator.group.modern.records import E, M, ModernRecords, T, TargetEpoch
from penstock.coordinator.result import CoordinatorRecord
from penstock.coordinator.timeline import Timeline, TimelineMap, TimelineValue
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid

STALE = -1
COMMIT_VERSION_WITH_EPOCHS = 9  # of OffsetCommit: the first version that has STALE_MEMBER_EPOCH


class ModernGroup(Group, Generic[M, T, E]):
    records: ClassVar[ModernRecords[Any, Any, Any]]

    def __init__(self, group_id: str, timeline: Timeline, metadata: E) -> None:
        self.group_id = group_id
        self._metadata = TimelineValue(timeline, metadata)
        self._target_epoch = TimelineValue(timeline, TargetEpoch(1, 0))
        self.members: TimelineMap[str, M] = TimelineMap(timeline)
        self.targets: TimelineMap[str, T] = TimelineMap(timeline)
        self.refreshed_epoch = STALE
        """The group epoch in which the topics were last looked up; not replicated. An epoch that was never reached,
        because the log refused it, does not count."""

    @property
    def metadata(self) -> E:
        return self._metadata.value

    @property
    def epoch(self) -> int:
        return self._metadata.value.epoch

    @property
    def target_epoch(self) -> TargetEpoch:
        return self._target_epoch.value

    @property
    def committed_epochs(self) -> tuple[int, int]:
        """Of the group, and of its target assignment."""
        return self._metadata.committed.epoch, self._target_epoch.committed.number

    @property
    def protocol_type(self) -> str:
        return self.type.value

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_stale(self) -> bool:
        """Whether the topics may have changed since the last epoch."""
        return self.refreshed_epoch == STALE or self.refreshed_epoch > self.epoch

    def state_name(self, *, committed: bool = False) -> str:
        members: Mapping[str, M] = self.members
        epoch, target_epoch = self.epoch, self.target_epoch.number
        if committed:
            members = self.members.committed_items()
            epoch, target_epoch = self.committed_epochs
        if not members:
            return "Empty"
        if epoch > target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(target_epoch) for member in members.values()):
            return "Stable"
        return "Reconciling"

    def member(self, member_id: str) -> M:
        found = self.members.get(member_id)
        if found is None:
            raise self._unknown(member_id)
        return found

    # -- target assignment

    def is_assignment_due(self, *, wall_ms: int, interval_ms: int) -> bool:
        """Whether enough time has passed since the last assignment, so that members that join together are assigned
        together (KIP-1263)."""
        computed_at_ms = self.target_epoch.computed_at_ms
        if not computed_at_ms:
            return True
        # A clock that was set back must not delay the assignment.
        return not 0 <= wall_ms - computed_at_ms < interval_ms

    def target_records(
        self, targets: Mapping[str, T], *, epoch: int, wall_ms: int
    ) -> list[CoordinatorRecord]:
        """The targets that changed, and the group epoch for which all of them were computed."""
        changed = [
            self.records.target(self.group_id, member_id, target)
            for member_id, target in targets.items()
            if self.targets.get(member_id) != target
        ]
        return [*changed, self.records.target_epoch(self.group_id, TargetEpoch(epoch, wall_ms))]

    # -- offsets and administration

    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        epoch = generation_or_epoch
        if epoch < 0 and not self.members:
            return None  # a consumer that does not join the group, or an administrator
        if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None  # a producer that does not send group metadata
        member = self.member(member_id)
        if not is_transactional and not member.is_classic and version < COMMIT_VERSION_WITH_EPOCHS:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Members of a {self.type.value} group must commit with OffsetCommit v9 or newer, "
                "which has a member epoch.",
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, f"{epoch} is newer than the current one, {member.epoch}")

        def check(topic_id: Uuid, partition: int) -> None:
            """A member with an older epoch may commit what it has owned since that epoch (KIP-1251)."""
            assigned_in = self.assignment_epoch_of(member, topic_id, partition)
            if assigned_in is None:
                raise _stale(
                    member, f"{epoch} is old, and partition {partition} is not assigned to the member"
                )
            if epoch < assigned_in:
                raise _stale(member, f"{epoch} is older than assignment epoch {assigned_in} of {partition}")

        return check

    @abstractmethod
    def assignment_epoch_of(self, member: M, topic_id: Uuid, partition: int) -> int | None:
        """The member epoch in which the partition was assigned to the member; None: it is not assigned to it."""

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = None if member_id is None else self.members.committed(member_id)
        if member is None:
            raise self._unknown(member_id)
        if member_epoch != member.epoch:
            raise _stale(member, f"{member_epoch} is not the current one, {member.epoch}")

    def check_offset_delete(self) -> None:
        """Always allowed: the coordinator knows the subscriptions of all members."""

    def check_delete(self) -> None:
        if self.members:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} is not empty: it has members.")

    def offsets_expire_from_ms(self, commit_timestamp_ms: int, *, topic: str) -> int | None:
        return None if self.is_subscribed_to(topic) else commit_timestamp_ms

    @property
    def is_kept_without_offsets(self) -> bool:
        return bool(self.members)

    def check_size(self, size_max: int) -> None:
        if len(self.members) >= size_max:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"Group {self.group_id} is full: it has the maximum of {size_max} members.",
            )

    # -- records

    def tombstones(self) -> list[CoordinatorRecord]:
        return self.records.group_removal(self.group_id, self.members)

    def removal_of(
        self, member_ids: Iterable[str], *, metadata: E, others: Iterable[CoordinatorRecord] = ()
    ) -> list[CoordinatorRecord]:
        """Remove members, and begin the group epoch of `metadata`. `others` are written before the epoch."""
        removals = (self.records.member_removal(self.group_id, member_id) for member_id in member_ids)
        return [
            *(record for removal in removals for record in removal),
            *others,
            self.records.group(self.group_id, metadata),
        ]

    # -- replay

    def set_metadata(self, metadata: E) -> None:
        self._metadata.value = metadata

    def set_target_epoch(self, epoch: TargetEpoch) -> None:
        self._target_epoch.value = epoch

    def put_member(self, member: M) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.update_indexes(before, member)

    def remove_member(self, member_id: str) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self.update_indexes(before, None)

    @abstractmethod
    def update_indexes(self, before: M | None, after: M | None) -> None:
        """A member was added, changed or removed."""

    def _unknown(self, member_id: str | None) -> Refused:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}.")


def _stale(member: Any, reason: str) -> Refused:
    if member.is_classic:
        return Refused(ErrorCode.ILLEGAL_GENERATION, f"The generation id {reason}.")
    return Refused(ErrorCode.STALE_MEMBER_EPOCH, f"The member epoch {reason}.")
