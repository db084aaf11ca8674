"""A new target assignment: who shall have which tasks, and the records that say so."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.coordinator.group.streams import writing
from penstock.coordinator.group.streams.assignor import Candidate, assign
from penstock.coordinator.group.streams.configuring import ConfiguredTopology
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import NO_TARGET, Tasks
from penstock.coordinator.outcome import CoordinatorRecord

STANDBY_SETTING = "num.standby.replicas"
"""As records name the group's setting."""


def assignment_settings(standby_count: int) -> dict[str, str]:
    """What an assignment depends on besides members and topics."""
    return {STANDBY_SETTING: str(standby_count)}


def assign_tasks(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    topology: ConfiguredTopology,
    settings: Mapping[str, str],
) -> dict[str, Tasks]:
    """What every one of `members` shall have: nothing, as long as the topics are not as they should be."""
    if not topology.is_ready:
        return dict.fromkeys(members, NO_TARGET)
    candidates = {
        member_id: Candidate(member.process_id, group.targets.get(member_id, NO_TARGET))
        for member_id, member in members.items()
    }
    return assign(candidates, topology.subtopologies, standby_count=int(settings.get(STANDBY_SETTING, 0)))


def target_records(
    group: StreamsGroup, targets: Mapping[str, Tasks], *, epoch: int, timestamp_ms: int
) -> list[CoordinatorRecord]:
    """Of those whose target is new or has changed, and then the epoch for which all of them hold."""
    changed = [
        writing.target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if group.targets.get(member_id) != target
    ]
    return [*changed, writing.target_epoch_record(group.group_id, epoch, timestamp_ms=timestamp_ms)]
