"""Where followers continue whose fetch offset the leader does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from penstock.metadata.errors import Refused
from penstock.protocol.constants import LATEST_TIMESTAMP
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.types import Uuid
from penstock.replication.fetcher import FollowerReplica
from penstock.replication.following import FetchPosition
from penstock.replication.offset_reset import Reset, find_resets

TOPIC = Uuid(b"orders".ljust(16))
LEADER_START_OFFSET, LEADER_END_OFFSET = 100, 200


@dataclass
class Follower:
    index: int
    topic: str = "orders"
    topic_id: Uuid = TOPIC
    leader_epoch: int = 5
    is_offline: bool = False

    def position(self) -> FetchPosition:
        if self.is_offline:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, "its log directory is offline")
        return FetchPosition(7, 4, 0)


async def test_a_failed_directory_does_not_stop_the_reset_of_other_partitions() -> None:
    followers = [Follower(0), Follower(1), Follower(2)]

    async def ask(request: ListOffsetsRequest) -> ListOffsetsResponse:
        followers[1].is_offline = True
        (topic,) = request.topics
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=LEADER_END_OFFSET
                            if each.timestamp == LATEST_TIMESTAMP
                            else LEADER_START_OFFSET,
                        )
                        for each in topic.partitions
                    ],
                )
            ]
        )

    resets = await find_resets(ask, cast("list[FollowerReplica]", followers), node_id=2)

    start = Reset(LEADER_START_OFFSET, is_full=True)
    assert resets == {(TOPIC, 0): start, (TOPIC, 2): start}
