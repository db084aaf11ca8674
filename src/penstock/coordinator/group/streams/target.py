"""The target assignment of a streams group."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.coordinator.group.streams.assignor import Candidate, assign
from penstock.coordinator.group.streams.configuring import ConfiguredTopology
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import NO_TARGET, Tasks

STANDBY_SETTING = "num.standby.replicas"
"""The name of the group setting in records."""


def assignment_settings(standby_count: int) -> dict[str, str]:
    """The settings that an assignment depends on."""
    return {STANDBY_SETTING: str(standby_count)}


def assign_tasks(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    topology: ConfiguredTopology,
    settings: Mapping[str, str],
) -> dict[str, Tasks]:
    """The target of each member. It is empty while topics are missing or have the wrong number of partitions."""
    if not topology.is_ready:
        return dict.fromkeys(members, NO_TARGET)
    candidates = {
        member_id: Candidate(member.process_id, group.targets.get(member_id, NO_TARGET))
        for member_id, member in members.items()
    }
    return assign(candidates, topology.subtopologies, standby_count=int(settings.get(STANDBY_SETTING, 0)))
