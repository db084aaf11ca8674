"""UpdateFeatures, DescribeQuorum and DescribeCluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from unit.controller.nodes import ControllerNode

Ask = Callable[..., Awaitable[Any]]


def lowering(version: int) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    if version == 0:
        update = FeatureUpdateKey(feature="share.version", max_version_level=0, allow_downgrade=True)
    return UpdateFeaturesRequest(feature_updates=[update])


@pytest.mark.parametrize("version", range(3))
async def test_a_feature_is_lowered_in_every_version(ask: Ask, admin_broker: Broker, version: int) -> None:
    response = await ask(lowering(version), version=version)

    assert response.error_code is ErrorCode.NONE
    assert [result.feature for result in response.results] == (["share.version"] if version < 2 else [])
    assert "share.version" not in admin_broker.metadata.image.features


@pytest.mark.parametrize("version", range(3))
async def test_one_bad_update_refuses_all(ask: Ask, admin_broker: Broker, version: int) -> None:
    request = lowering(version)
    request.feature_updates.append(FeatureUpdateKey(feature="nosuch", max_version_level=1))

    response = await ask(request, version=version)

    assert response.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert "does not support this feature" in response.error_message
    assert admin_broker.metadata.image.features["share.version"] == 1


async def test_features_cannot_be_updated_without_a_controller(ask: Ask, no_controller: None) -> None:
    assert (await ask(lowering(2))).error_code is ErrorCode.NOT_CONTROLLER


def quorum_of(*partitions: tuple[str, int]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopic(
                topic_name=name, partitions=[DescribeQuorumRequestPartition(partition_index=index)]
            )
            for name, index in partitions
        ]
    )


@pytest.mark.parametrize("version", range(3))
async def test_the_quorum_is_described_in_every_version(
    ask: Ask, controller_node: ControllerNode, version: int
) -> None:
    response = await ask(quorum_of(("__cluster_metadata", 0)), version=version)

    (partition,) = response.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    assert partition.high_watermark == controller_node.log.end_offset
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, controller_node.log.end_offset)
    assert (voter.last_caught_up_timestamp > 0) == (version >= 1)
    assert (voter.replica_directory_id != bytes(16)) == (version >= 2)
    assert [node.node_id for node in response.nodes] == ([1] if version >= 2 else [])


@pytest.mark.parametrize(
    "asked",
    [[("x", 0)], [("__cluster_metadata", 1)], [("__cluster_metadata", 0), ("__cluster_metadata", 1)]],
)
async def test_there_is_one_quorum_to_ask_about(ask: Ask, asked: list[tuple[str, int]]) -> None:
    response = await ask(quorum_of(*asked))

    for topic in response.topics:
        assert [each.error_code for each in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described_in_every_version(ask: Ask, version: int) -> None:
    response = await ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version=version)

    assert (response.cluster_id, response.controller_id) == ("a cluster", 1)
    assert [(node.broker_id, node.host, node.port) for node in response.brokers] == [(1, "localhost", 9093)]
    assert response.cluster_authorized_operations == 8096


async def test_fenced_nodes_are_shown_only_on_demand(ask: Ask, controller_node: ControllerNode) -> None:
    image = controller_node.image
    fenced = replace(image.brokers[1], is_fenced=True)
    controller_node.cache.image = replace(image, brokers={1: fenced})

    hidden = await ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
    shown = await ask(
        DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
    )

    assert (hidden.brokers, hidden.controller_id) == ([], -1)
    assert [node.is_fenced for node in shown.brokers] == [True]


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_only_nodes_can_be_asked_for_here(ask: Ask, endpoint_type: int, error: ErrorCode) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type)

    assert (await ask(request)).error_code is error
