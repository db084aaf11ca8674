"""A client that describes groups and compares the result with what the members know."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.list_groups import ListGroupsRequest
from simulator.clients.administrators import RETRIABLE, SET
from simulator.clients.client import LostConnection
from simulator.groups.classic import ClassicMember
from simulator.groups.consumer import ConsumerMember
from simulator.groups.group import SimulatedGroup
from simulator.groups.member import Member
from simulator.groups.offset_client import IDS_VERSION, OffsetClient
from simulator.simulation import BrokenPromise, Simulation

GROUP_RESOURCE = 32

DESCRIBE_ERRORS = (
    ErrorCode.NONE,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Inspector(OffsetClient):
    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name)
        self.topic_ids = {}

    async def find_fault(self, group: SimulatedGroup, members: Sequence[Member]) -> str | None:
        """Why a group without disturbances is not in its final state yet; None if it is."""
        for member in members:
            if not member.is_settled:
                return f"{member.name} is not settled"
        if len({member.generation for member in members}) > 1:
            return f"members are in {[member.generation for member in members]}"
        fault = await self._find_unowned(group, members)
        if fault is None and members:
            fault = await self._find_wrong_listing(group, members)
        if fault is None:
            classic = [member for member in members if isinstance(member, ClassicMember)]
            newer = [member for member in members if isinstance(member, ConsumerMember)]
            if classic and not newer:
                fault = await self._find_wrong_description(group, classic)
            elif newer:
                fault = await self._find_wrong_consumer_description(group, newer)
        return fault

    async def _find_unowned(self, group: SimulatedGroup, members: Sequence[Member]) -> str | None:
        owned = [partition for member in members for partition in member.membership.held]
        for topic in group.topics if members else ():
            found = await self.find_topic(topic)
            if found is None:
                continue  # it was not created yet
            self.topic_ids[topic] = found[0]
            for index in range(found[1]):
                owners = owned.count((found[0], index))
                if owners != 1:
                    return f"{topic}-{index} has {owners} owners"
        return None

    async def _find_wrong_listing(self, group: SimulatedGroup, members: Sequence[Member]) -> str | None:
        response = await self.ask(ListGroupsRequest())
        if response.error_code != ErrorCode.NONE:
            return f"groups are not listed: {response.error_code.name}"
        listed = [each for each in response.groups if each.group_id == group.group_id]
        is_classic = all(isinstance(member, ClassicMember) for member in members)
        wanted = ("consumer", "Stable", "classic" if is_classic else "consumer")
        reported = [(each.protocol_type, each.group_state.capitalize(), each.group_type) for each in listed]
        return None if reported == [wanted] else f"listed as {reported}, not {wanted}"

    async def _find_wrong_description(
        self, group: SimulatedGroup, members: Sequence[ClassicMember]
    ) -> str | None:
        (described,) = (await self.ask(DescribeGroupsRequest(groups=[group.group_id]))).groups
        if described.error_code not in DESCRIBE_ERRORS:
            raise BrokenPromise(f"group {group.group_id} is not described: {described.error_code.name}")
        if described.group_state != "Stable":
            return f"described as {described.group_state}"
        reported = {each.member_id: (each.client_id, each.member_assignment) for each in described.members}
        wanted = {member.member_id: (member.name, member.assignment) for member in members}
        return None if reported == wanted else f"described with members {reported}, not {wanted}"

    async def _find_wrong_consumer_description(
        self, group: SimulatedGroup, members: Sequence[ConsumerMember]
    ) -> str | None:
        request = ConsumerGroupDescribeRequest(
            group_ids=[group.group_id], include_authorized_operations=False
        )
        (described,) = (await self.ask(request)).groups
        if described.error_code not in DESCRIBE_ERRORS:
            raise BrokenPromise(f"group {group.group_id} is not described: {described.error_code.name}")
        if described.group_state != "Stable" or described.group_epoch != described.assignment_epoch:
            return (
                f"described as {described.group_state}, {described.group_epoch}, {described.assignment_epoch}"
            )
        reported = {
            each.member_id: (
                each.client_id,
                each.member_epoch,
                sorted(
                    (topic.topic_id, index)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for each in described.members
        }
        for member in members:
            wanted = (member.name, member.generation, sorted(member.membership.held))
            if reported.get(member.member_id) != wanted:
                return f"{member.name} is described as {reported.get(member.member_id)}, not {wanted}"
        return None

    async def change_setting(self, group: SimulatedGroup, name: str, value: str) -> None:
        """Change a setting of this group. A lost response does not matter."""
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=group.group_id,
            configs=[AlterableConfig(name=name, config_operation=SET, value=value)],
        )
        try:
            response = await self.ask(
                IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            )
        except LostConnection:
            return
        error = response.responses[0].error_code
        if error != ErrorCode.NONE and not (error in RETRIABLE and group.conditions.is_disk_degraded()):
            raise BrokenPromise(f"group {group.group_id} cannot set {name}={value}: {error.name}")

    async def audit_offsets(self, group: SimulatedGroup) -> ErrorCode:
        """Check all committed offsets; the error code if they cannot be fetched."""
        for topic in group.topics:
            found = await self.find_topic(topic)
            if found is not None:
                self.topic_ids[topic] = found[0]
        reported = await self.fetch_offsets(group, group.offsets.partitions(), version=IDS_VERSION)
        return reported if isinstance(reported, ErrorCode) else ErrorCode.NONE
