"""Consumer groups for ConsumerGroupDescribe: committed state, with the current names of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from penstock.coordinator.group.consumer.assignment import NOTHING, Assignment, in_order
from penstock.coordinator.group.consumer.group import ConsumerGroup, replace_assignor
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.metadata.image import MetadataImage
from penstock.protocol.messages.consumer_group_describe import (
    Assignment as DescribedAssignment,
)
from penstock.protocol.messages.consumer_group_describe import (
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_group(group: ConsumerGroup, image: MetadataImage, *, default_assignor: str) -> DescribedGroup:
    members = group.members.committed_items()
    epoch, target_epoch = group.committed_epochs
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(committed=True),
        group_epoch=epoch,
        assignment_epoch=target_epoch,
        assignor_name=_assignor(group, members.values()) or default_assignor,
        members=[
            _describe_member(member, group.targets.committed(member.member_id) or NOTHING, image)
            for member in members.values()
        ],
    )


def _assignor(group: ConsumerGroup, members: Iterable[ConsumerMember]) -> str | None:
    counts: Counter[str] = Counter()
    for member in members:
        replace_assignor(counts, None, member)
    return group.preferred_assignor(counts)


def _describe_member(member: ConsumerMember, target: Assignment, image: MetadataImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_describe_partitions(member.owned, image),
        target_assignment=_describe_partitions(target, image),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _describe_partitions(assignment: Assignment, image: MetadataImage) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
            for topic_id, partitions in in_order(assignment)
            if (name := image.topics.names_by_id.get(topic_id)) is not None
        ]
    )
