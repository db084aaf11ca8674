"""The target assignment of a consumer group."""

from __future__ import annotations

from collections.abc import KeysView, Mapping

from penstock.coordinator.group.consumer.assignment import NOTHING, Assignment
from penstock.coordinator.group.consumer.assignors import AssignedMember, Assignor, GroupToAssign
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.consumer.subscriptions import subscribed_topics
from penstock.metadata.image import MetadataImage
from penstock.protocol.types import Uuid


def compute_targets(
    group: ConsumerGroup,
    updated: ConsumerMember,
    *,
    assignor: Assignor,
    is_homogeneous: bool,
    image: MetadataImage,
) -> Mapping[str, Assignment]:
    """By member id. `updated` replaces the member with its id, or its static predecessor."""
    topic_ids = TopicIds(image, group.resolved)
    predecessor = group.static_member(updated.instance_id)
    members: dict[str, AssignedMember] = {}
    for member_id, member in group.members.items():
        if predecessor is None or member_id != predecessor.member_id:
            members[member_id] = AssignedMember(
                member.instance_id, topic_ids.of(member), group.targets.get(member_id, NOTHING)
            )
    members[updated.member_id] = AssignedMember(
        updated.instance_id, topic_ids.of(updated), group.target_of(updated)
    )
    counts = {
        topic_id: len(topic.partitions)
        for topic_id in topic_ids.all()
        if (topic := image.topics.with_id(topic_id)) is not None
    }
    return assignor(GroupToAssign(members, counts, is_homogeneous))


class TopicIds:
    """Subscriptions as ids of existing topics. Most members share a subscription, so each is looked up once."""

    def __init__(self, image: MetadataImage, resolved: Mapping[str, ResolvedRegex]) -> None:
        self._image = image
        self._resolved = resolved
        self._known: dict[tuple[frozenset[str], str], KeysView[Uuid]] = {}

    def of(self, member: ConsumerMember) -> KeysView[Uuid]:
        key = (member.topics, member.regex)
        known = self._known.get(key)
        if known is None:
            topics = map(self._image.topics.get, sorted(subscribed_topics(member, self._resolved)))
            known = self._known[key] = {topic.topic_id: None for topic in topics if topic is not None}.keys()
        return known

    def all(self) -> list[Uuid]:
        """The topics of all members looked up so far, in a deterministic order."""
        return list(dict.fromkeys(topic_id for known in self._known.values() for topic_id in known))
