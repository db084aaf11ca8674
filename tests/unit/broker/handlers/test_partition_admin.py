"""Elections, reassignments and brokers: requests that a broker forwards to the active controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from unit.controller.clusters import new_topic

Ask = Callable[..., Awaitable[Any]]


def moving(topic: str, index: int, *replicas: int) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=index, replicas=list(replicas))
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])])


LISTING = ListPartitionReassignmentsRequest(
    topics=[ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]
)


@pytest.mark.parametrize("version", range(3))
async def test_leaders_are_elected_in_every_version(ask: Ask, version: int) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1)]))

    response = await ask(
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 7])]), version=version
    )

    (result,) = response.replica_election_results
    assert [(each.partition_id, each.error_code) for each in result.partition_result] == [
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", range(2))
async def test_an_impossible_reassignment_is_refused_in_every_version(ask: Ask, version: int) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1)]))

    response = await ask(moving("t", 0, 1, 99), version=version)

    (topic,) = response.responses
    assert response.error_code is ErrorCode.NONE
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    ]


async def test_there_are_no_reassignments_in_progress(ask: Ask) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1)]))

    response = await ask(LISTING)

    assert (response.error_code, response.topics) == (ErrorCode.NONE, [])


async def test_a_broker_that_is_not_registered_cannot_be_unregistered(ask: Ask) -> None:
    response = await ask(UnregisterBrokerRequest(broker_id=99))

    assert response.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_without_a_controller_all_of_them_are_refused(ask: Ask, no_controller: None) -> None:
    elected = await ask(ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])]))
    moved = await ask(moving("t", 0, 1))

    assert elected.error_code is ErrorCode.NOT_CONTROLLER
    assert elected.replica_election_results[0].partition_result[0].error_code is ErrorCode.NOT_CONTROLLER
    assert moved.error_code is ErrorCode.NOT_CONTROLLER
    assert moved.responses[0].partitions[0].error_code is ErrorCode.NOT_CONTROLLER
    assert (await ask(LISTING)).error_code is ErrorCode.NOT_CONTROLLER
    assert (await ask(UnregisterBrokerRequest(broker_id=1))).error_code is ErrorCode.NOT_CONTROLLER
