"""The two APIs that describe topics: Metadata, all at once, and DescribeTopicPartitions, in pages."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.admin.operations import operations_of
from penstock.client.admin.results import Results
from penstock.client.admin.topics import PartitionDescription, TopicDescription, TopicListing
from penstock.client.admin.wire.common import check, id_text, known, value_or_error
from penstock.client.errors import PenstockError
from penstock.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)


def list_request() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def read_listed(response: MetadataResponse) -> list[TopicListing]:
    check(response.error_code)
    return sorted(
        (
            TopicListing(
                name=topic.name or "",
                topic_id=id_text(topic.topic_id),
                partitions=len(topic.partitions),
                is_internal=topic.is_internal,
            )
            for topic in response.topics
        ),
        key=lambda listing: listing.name,
    )


def metadata_request(names: Sequence[str], *, operations: bool) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
    )


def read_described(response: MetadataResponse) -> Results[str, TopicDescription]:
    check(response.error_code)
    results: dict[str, TopicDescription | PenstockError] = {}
    for topic in response.topics:
        partitions = sorted(map(_partition, topic.partitions), key=lambda partition: partition.index)
        name = topic.name or ""
        description = TopicDescription(
            name=name,
            topic_id=id_text(topic.topic_id),
            is_internal=topic.is_internal,
            partitions=tuple(partitions),
            authorized_operations=operations_of(topic.topic_authorized_operations),
        )
        results[name] = value_or_error(topic.error_code, None, name, description)
    return results


def page_request(
    names: Sequence[str], partitions_max: int, cursor: Cursor | None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in sorted(names)],
        response_partition_limit=partitions_max,
        cursor=cursor,
    )


class PagedDescriptions:
    """Joins pages. A topic may begin on one page and end on a later one."""

    def __init__(self) -> None:
        self.has_more = True
        self.cursor: Cursor | None = None
        self._topics: dict[str, DescribeTopicPartitionsResponseTopic] = {}

    def add(self, page: DescribeTopicPartitionsResponse) -> None:
        for topic in page.topics:
            begun = self._topics.setdefault(topic.name or "", topic)
            if begun is not topic:
                begun.partitions.extend(topic.partitions)
        # A cursor that does not move would loop forever.
        self.has_more = page.next_cursor is not None and page.next_cursor != self.cursor
        self.cursor = page.next_cursor

    def results(self) -> Results[str, TopicDescription]:
        return {
            name: value_or_error(topic.error_code, None, name, self._description(name, topic))
            for name, topic in self._topics.items()
        }

    @staticmethod
    def _description(name: str, topic: DescribeTopicPartitionsResponseTopic) -> TopicDescription:
        partitions = {partition.partition_index: _partition(partition) for partition in topic.partitions}
        return TopicDescription(
            name=name,
            topic_id=id_text(topic.topic_id),
            is_internal=topic.is_internal,
            partitions=tuple(partitions[index] for index in sorted(partitions)),
            authorized_operations=operations_of(topic.topic_authorized_operations),
        )


def _partition(
    partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
) -> PartitionDescription:
    eligible: list[int] | None = getattr(partition, "eligible_leader_replicas", None)
    last_known: list[int] | None = getattr(partition, "last_known_elr", None)
    return PartitionDescription(
        index=partition.partition_index,
        leader=known(partition.leader_id),
        leader_epoch=known(partition.leader_epoch),
        replicas=tuple(partition.replica_nodes),
        in_sync=tuple(partition.isr_nodes),
        offline=tuple(partition.offline_replicas),
        eligible_leaders=None if eligible is None else tuple(eligible),
        last_known_eligible=None if last_known is None else tuple(last_known),
    )
