"""The groups of one type in a shard: finding them, and replaying their records.

Records may come in any order that compaction leaves, and tombstones for state that was never seen. The first record of
a group creates it; a group that only has offsets is replaced, and its offsets stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group
from penstock.coordinator.group.modern.group import STALE, ModernGroup
from penstock.coordinator.group.modern.records import NO_TARGET_EPOCH, TargetEpoch
from penstock.metadata.delta import MetadataDelta, TopicDelta
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

G = TypeVar("G", bound=ModernGroup[Any, Any, Any])

Replay = Callable[[Any, Any], None]


class ModernGroups(Generic[G]):
    def __init__(
        self, context: GroupContext, group_class: type[G], member_class: type[Any], create: Callable[[str], G]
    ) -> None:
        self._groups = context.groups
        self._class = group_class
        self._member_class = member_class
        self._create = create

    def find(self, group_id: str) -> G | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, self._class) else None

    def require(self, group_id: str) -> G:
        """`Refused` with GROUP_ID_NOT_FOUND if no group of this type has the id."""
        return self.check_type(group_id, self._groups.get(group_id))

    def require_committed(self, group_id: str) -> G:
        return self.check_type(group_id, self._groups.committed(group_id))

    def check_type(self, group_id: str, group: Group | None) -> G:
        if not isinstance(group, self._class):
            reason = "not found" if group is None else f"is not a {self._class.type.value} group"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        return group

    def __iter__(self) -> Iterator[G]:
        return (group for group in self._groups.values() if isinstance(group, self._class))

    def mark_stale(self, delta: MetadataDelta, uses_any: Callable[[G, set[str]], bool]) -> None:
        """Groups that use a changed topic look it up with their next heartbeat. Nothing is written until then."""
        changed = {
            image.name
            for topic in delta.topics.values()
            if _affects_assignments(topic)
            for image in (topic.before, topic.after)
            if image is not None
        }
        for group in self if changed else ():
            if uses_any(group, changed):
                group.refreshed_epoch = STALE

    # -- replay

    @property
    def replays(self) -> dict[type, Replay]:
        records = self._class.records
        return {
            records.group_key: self.replay_group,
            records.member_key: self._replay_member,
            records.target_epoch_key: self._replay_target_epoch,
            records.target_key: self._replay_target,
            records.current_key: self._replay_current,
        }

    def replay_into(self, group_id: str, value: Any | None) -> G | None:
        """The group that a record belongs to: created for a value, None for a tombstone of an unknown group."""
        group = self.find(group_id)
        if group is None and value is not None:
            group = self._groups[group_id] = self._create(group_id)
        return group

    def replay_group(self, key: Any, value: Any | None) -> None:
        group = self.replay_into(key.group_id, value)
        if group is None:
            return
        if value is None:
            del self._groups[key.group_id]
        else:
            group.set_metadata(group.records.read_group(value))

    def _replay_member(self, key: Any, value: Any | None) -> None:
        group = self.replay_into(key.group_id, value)
        if group is None:
            return
        if value is None:
            group.remove_member(key.member_id)
        else:
            group.put_member(group.records.read_member(self._member(group, key.member_id), value))

    def _replay_target_epoch(self, key: Any, value: Any | None) -> None:
        group = self.replay_into(key.group_id, value)
        if group is not None:
            group.set_target_epoch(
                NO_TARGET_EPOCH
                if value is None
                else TargetEpoch(value.assignment_epoch, value.assignment_timestamp)
            )

    def _replay_target(self, key: Any, value: Any | None) -> None:
        group = self.replay_into(key.group_id, value)
        if group is None:
            return
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = group.records.read_target(value)

    def _replay_current(self, key: Any, value: Any | None) -> None:
        group = self.replay_into(key.group_id, value)
        if group is not None and (value is not None or key.member_id in group.members):
            group.put_member(group.records.read_current(self._member(group, key.member_id), value))

    def _member(self, group: G, member_id: str) -> Any:
        return group.members.get(member_id) or self._member_class(member_id)


def _affects_assignments(topic: TopicDelta) -> bool:
    """Assignments do not depend on the leader or the in-sync replicas."""
    if topic.before is None or topic.after is None:
        return True
    before, after = topic.before.partitions, topic.after.partitions
    if len(before) != len(after):
        return True
    return any(before[index].replicas != after[index].replicas for index in topic.changed_partitions)
