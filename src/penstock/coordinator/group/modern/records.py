"""How the state of a modern group is written to the log, and read back.

Every type of modern group has the same five kinds of record, under its own keys: group metadata, member metadata,
target assignment epoch, target assignment of a member, current assignment of a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.coordinator.group.modern.member import LEAVE_EPOCH, MemberState, ModernMember
from penstock.coordinator.result import CoordinatorRecord

M = TypeVar("M", bound=ModernMember[Any])
T = TypeVar("T")
E = TypeVar("E", bound="GroupMetadata")

_STATES = {state.value: state for state in MemberState}


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    epoch: int = 1
    metadata_hash: int = 0
    """Of the subscribed topics, see `topic_hash`."""


class TargetEpoch(NamedTuple):
    number: int
    computed_at_ms: int
    """Wall clock; 0: never."""


NO_TARGET_EPOCH = TargetEpoch(-1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernRecords(Generic[M, T, E]):
    """The records of one type of group. `read_*` and `write_*` convert between state and record values."""

    group_key: type[Any]
    member_key: type[Any]
    target_epoch_key: type[Any]
    target_epoch_value: type[Any]
    target_key: type[Any]
    current_key: type[Any]
    current_value: type[Any]
    read_group: Callable[[Any], E]
    write_group: Callable[[E], Any]
    read_member: Callable[[M, Any], M]
    write_member: Callable[[M], Any]
    read_target: Callable[[Any], T]
    write_target: Callable[[T], Any]
    read_assignments: Callable[[Any], tuple[Any, Any]]
    """From a current assignment value: what is assigned, and what is pending revocation."""
    write_assignments: Callable[[M], Mapping[str, Any]]
    """The fields of a current assignment value that hold them."""
    nothing_assigned: Any
    first_state: int = 0
    """The number of `MemberState.STABLE`. The other states follow it; UNKNOWN is 127 in every type."""

    # -- state to records

    def group(self, group_id: str, metadata: E) -> CoordinatorRecord:
        return CoordinatorRecord(self.group_key(group_id=group_id), self.write_group(metadata))

    def member(self, group_id: str, member: M) -> CoordinatorRecord:
        key = self.member_key(group_id=group_id, member_id=member.member_id)
        return CoordinatorRecord(key, self.write_member(member))

    def target_epoch(self, group_id: str, epoch: TargetEpoch) -> CoordinatorRecord:
        return CoordinatorRecord(
            self.target_epoch_key(group_id=group_id),
            self.target_epoch_value(assignment_epoch=epoch.number, assignment_timestamp=epoch.computed_at_ms),
        )

    def target(self, group_id: str, member_id: str, target: T) -> CoordinatorRecord:
        key = self.target_key(group_id=group_id, member_id=member_id)
        return CoordinatorRecord(key, self.write_target(target))

    def current(self, group_id: str, member: M) -> CoordinatorRecord:
        """What the member owns now, and its epoch."""
        state = member.state
        number = state.value if state is MemberState.UNKNOWN else state.value + self.first_state
        return CoordinatorRecord(
            self.current_key(group_id=group_id, member_id=member.member_id),
            self.current_value(
                member_epoch=member.epoch,
                previous_member_epoch=member.previous_epoch,
                state=number,
                **self.write_assignments(member),
            ),
        )

    def member_removal(self, group_id: str, member_id: str) -> list[CoordinatorRecord]:
        """Tombstones for everything about a member, in the order that Kafka requires for replay."""
        keys = (self.current_key, self.target_key, self.member_key)
        return [CoordinatorRecord(key(group_id=group_id, member_id=member_id), None) for key in keys]

    def group_removal(
        self, group_id: str, member_ids: Iterable[str], *, others: Sequence[CoordinatorRecord] = ()
    ) -> list[CoordinatorRecord]:
        """Tombstones for a group and these members, grouped by record type: Kafka replays them in this order.

        `others` are tombstones that only this type of group has."""
        removals = [self.member_removal(group_id, member_id) for member_id in member_ids]
        target_epoch = CoordinatorRecord(self.target_epoch_key(group_id=group_id), None)
        group = CoordinatorRecord(self.group_key(group_id=group_id), None)
        return [
            *(current for current, _, _ in removals),
            *(target for _, target, _ in removals),
            target_epoch,
            *(member for _, _, member in removals),
            *others,
            group,
        ]

    # -- records to state

    def read_current(self, member: M, value: Any | None) -> M:
        """Without a value, the member has no assignment, as between the tombstones that remove it."""
        if value is None:
            nothing = self.nothing_assigned
            return replace(
                member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=nothing, revoking=nothing
            )
        assigned, revoking = self.read_assignments(value)
        return replace(
            member,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state - self.first_state, MemberState.UNKNOWN),
            assigned=assigned,
            revoking=revoking,
        )


def read_epochs(partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int) -> Sequence[int]:
    """The assignment epoch of each partition. Software before 4.3 did not write them: then it is the member epoch."""
    if epochs is None or len(epochs) != len(partitions):
        return [max(member_epoch, 0)] * len(partitions)
    return epochs
