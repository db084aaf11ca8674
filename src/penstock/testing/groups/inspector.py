"""A client that asks about groups, and compares what it is told with what their members know."""

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
from penstock.testing.administrators import NOT_NOW, SET
from penstock.testing.client import LostConnection
from penstock.testing.groups.classic import ClassicMember
from penstock.testing.groups.consumer import ConsumerMember
from penstock.testing.groups.member import Member
from penstock.testing.groups.offset_client import IDS_VERSION, OffsetClient
from penstock.testing.groups.party import Party
from penstock.testing.simulation import BrokenPromise, Simulation

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

    async def find_fault(self, party: Party, members: Sequence[Member]) -> str | None:
        """What is not yet as it has to be in a group that nobody disturbs; None where all is well."""
        for member in members:
            if not member.is_settled:
                return f"{member.name} is not settled"
        if len({member.generation for member in members}) > 1:
            return f"members are in {[member.generation for member in members]}"
        fault = await self._find_unowned(party, members)
        if fault is None and members:
            fault = await self._find_wrong_listing(party, members)
        if fault is None:
            classic = [member for member in members if isinstance(member, ClassicMember)]
            newer = [member for member in members if isinstance(member, ConsumerMember)]
            if classic and not newer:
                fault = await self._find_wrong_description(party, classic)
            elif newer:
                fault = await self._find_wrong_consumer_description(party, newer)
        return fault

    async def _find_unowned(self, party: Party, members: Sequence[Member]) -> str | None:
        owned = [partition for member in members for partition in member.tenure.held]
        for topic in party.topics if members else ():
            found = await self.find_topic(topic)
            if found is None:
                continue  # nobody got round to making it
            self.topic_ids[topic] = found[0]
            for index in range(found[1]):
                owners = owned.count((found[0], index))
                if owners != 1:
                    return f"{topic}-{index} has {owners} owners"
        return None

    async def _find_wrong_listing(self, party: Party, members: Sequence[Member]) -> str | None:
        response = await self.ask(ListGroupsRequest())
        if response.error_code != ErrorCode.NONE:
            return f"groups are not listed: {response.error_code.name}"
        listed = [group for group in response.groups if group.group_id == party.group_id]
        is_classic = all(isinstance(member, ClassicMember) for member in members)
        wanted = ("consumer", "Stable", "classic" if is_classic else "consumer")
        told = [(group.protocol_type, group.group_state.capitalize(), group.group_type) for group in listed]
        return None if told == [wanted] else f"listed as {told}, not {wanted}"

    async def _find_wrong_description(self, party: Party, members: Sequence[ClassicMember]) -> str | None:
        (group,) = (await self.ask(DescribeGroupsRequest(groups=[party.group_id]))).groups
        if group.error_code not in DESCRIBE_ERRORS:
            raise BrokenPromise(f"group {party.group_id} is not described: {group.error_code.name}")
        if group.group_state != "Stable":
            return f"described as {group.group_state}"
        told = {each.member_id: (each.client_id, each.member_assignment) for each in group.members}
        wanted = {member.member_id: (member.name, member.assignment) for member in members}
        return None if told == wanted else f"described with members {told}, not {wanted}"

    async def _find_wrong_consumer_description(
        self, party: Party, members: Sequence[ConsumerMember]
    ) -> str | None:
        request = ConsumerGroupDescribeRequest(
            group_ids=[party.group_id], include_authorized_operations=False
        )
        (group,) = (await self.ask(request)).groups
        if group.error_code not in DESCRIBE_ERRORS:
            raise BrokenPromise(f"group {party.group_id} is not described: {group.error_code.name}")
        if group.group_state != "Stable" or group.group_epoch != group.assignment_epoch:
            return f"described as {group.group_state}, {group.group_epoch}, {group.assignment_epoch}"
        told = {
            each.member_id: (
                each.client_id,
                each.member_epoch,
                sorted(
                    (topic.topic_id, index)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for each in group.members
        }
        for member in members:
            wanted = (member.name, member.generation, sorted(member.tenure.held))
            if told.get(member.member_id) != wanted:
                return f"{member.name} is described as {told.get(member.member_id)}, not {wanted}"
        return None

    async def change_setting(self, party: Party, name: str, value: str) -> None:
        """Set something for this group; if it is not answered, so be it."""
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=party.group_id,
            configs=[AlterableConfig(name=name, config_operation=SET, value=value)],
        )
        try:
            response = await self.ask(
                IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            )
        except LostConnection:
            return
        error = response.responses[0].error_code
        if error != ErrorCode.NONE and not (error in NOT_NOW and party.weather.is_disk_ailing()):
            raise BrokenPromise(f"group {party.group_id} can not have {name}={value}: {error.name}")

    async def audit_offsets(self, party: Party) -> ErrorCode:
        """Hold all committed offsets against what was promised; the error where they are not told."""
        for topic in party.topics:
            found = await self.find_topic(topic)
            if found is not None:
                self.topic_ids[topic] = found[0]
        told = await self.fetch_offsets(party, party.offsets.partitions(), version=IDS_VERSION)
        return told if isinstance(told, ErrorCode) else ErrorCode.NONE
