"""The cluster, its quorum, features and transactions, and reassignments."""

from __future__ import annotations

import pytest

from harness.admins import asked, run_admin
from harness.scripted_cluster import Led, ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.admin.aio import Admin
from penstock.client.admin.features import FeatureUpdate, UpgradeType
from penstock.client.admin.quorum import Endpoint
from penstock.client.admin.reassignment import ElectionType
from penstock.client.admin.transactions import TransactionState
from penstock.client.cluster import TopicPartition
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import add_raft_voter as add
from penstock.protocol.messages import alter_partition_reassignments as reassign
from penstock.protocol.messages import describe_cluster as cluster
from penstock.protocol.messages import describe_producers as producers
from penstock.protocol.messages import describe_quorum as quorum
from penstock.protocol.messages import describe_transactions as describe
from penstock.protocol.messages import elect_leaders as elect
from penstock.protocol.messages import list_partition_reassignments as moves
from penstock.protocol.messages import list_transactions as listing
from penstock.protocol.messages import write_txn_markers as markers
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.protocol.types import Uuid, uuid_text

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
DIRECTORY = Uuid(bytes(range(16)))


def test_the_cluster_is_described_with_fenced_brokers_on_request() -> None:
    world = ScriptedCluster()
    world.answer(
        cluster.DescribeClusterRequest,
        lambda request, node: cluster.DescribeClusterResponse(
            cluster_id="c",
            controller_id=2,
            brokers=[
                cluster.DescribeClusterBroker(broker_id=2, host="b", port=2, rack="r", is_fenced=True),
                cluster.DescribeClusterBroker(broker_id=1, host="a", port=1),
            ],
            cluster_authorized_operations=1 << 8,
        ),
    )

    async def test(admin: Admin) -> None:
        found = await admin.describe_cluster(include_fenced=True)
        assert [(each.id, each.is_fenced, each.rack) for each in found.brokers] == [
            (1, False, None),
            (2, True, "r"),
        ]
        assert (found.cluster_id, found.controller) == ("c", 2)

    run_admin(world, test)


def test_an_old_broker_describes_the_cluster_with_metadata() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.versions.pop(ApiKey.DESCRIBE_CLUSTER)

    async def test(admin: Admin) -> None:
        found = await admin.describe_cluster()
        assert [broker.id for broker in found.brokers] == [1, 2]
        with pytest.raises(errors.UnsupportedVersion):
            await admin.describe_cluster(include_fenced=True)

    run_admin(world, test)


def test_every_broker_lists_its_apis() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.versions = {
        ApiKey.API_VERSIONS: (0, 4),
        ApiKey.METADATA: (0, 99),
        ApiKey.HEARTBEAT: (90, 99),
    }

    async def test(admin: Admin) -> None:
        found = await admin.api_versions()
        assert list(found) == [1, 2]
        by_name = {each.name: each for each in found[1]}
        assert by_name["Metadata"].usable_version == ApiKey.METADATA.last_version
        assert by_name["Heartbeat"].usable_version is None

    run_admin(world, test)


def test_a_broker_is_unregistered() -> None:
    world = ScriptedCluster()
    world.answer_in_turn(
        UnregisterBrokerRequest,
        UnregisterBrokerResponse(),
        UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="no 9"),
    )

    async def test(admin: Admin) -> None:
        await admin.unregister_broker(4)
        with pytest.raises(errors.BrokerIdNotRegistered, match="broker 9: no 9"):
            await admin.unregister_broker(9)

    run_admin(world, test)


def test_the_quorum_is_described_and_changed() -> None:
    world = ScriptedCluster()
    replica = quorum.ReplicaState(
        replica_id=1, replica_directory_id=DIRECTORY, log_end_offset=9, last_fetch_timestamp=5
    )
    world.answer(
        quorum.DescribeQuorumRequest,
        lambda request, node: quorum.DescribeQuorumResponse(
            topics=[
                quorum.DescribeQuorumResponseTopic(
                    topic_name="__cluster_metadata",
                    partitions=[
                        quorum.DescribeQuorumResponsePartition(
                            partition_index=0,
                            leader_id=1,
                            leader_epoch=3,
                            high_watermark=8,
                            current_voters=[replica],
                            observers=[],
                        )
                    ],
                )
            ],
            nodes=[
                quorum.Node(node_id=1, listeners=[quorum.Listener(name="CONTROLLER", host="h", port=9093)])
            ],
        ),
    )
    world.answer(add.AddRaftVoterRequest, lambda request, node: add.AddRaftVoterResponse())
    world.answer(
        RemoveRaftVoterRequest,
        lambda request, node: RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND),
    )

    async def test(admin: Admin) -> None:
        found = await admin.describe_quorum()
        assert (found.leader, found.leader_epoch, found.high_watermark) == (1, 3, 8)
        voter = found.voters[0]
        assert (voter.directory_id, voter.last_fetch_ms, voter.last_caught_up_ms) == (
            uuid_text(DIRECTORY),
            5,
            None,
        )
        assert found.nodes[0].endpoints == (Endpoint(listener="CONTROLLER", host="h", port=9093),)
        await admin.add_voter(2, uuid_text(DIRECTORY), found.nodes[0].endpoints)
        with pytest.raises(errors.VoterNotFound, match="voter 2"):
            await admin.remove_voter(2, uuid_text(DIRECTORY))

    run_admin(world, test)


def test_old_brokers_return_feature_errors_one_by_one_and_new_ones_together() -> None:
    world = ScriptedCluster()
    world.answer_in_turn(
        UpdateFeaturesRequest,
        UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="too high"),
    )

    async def test(admin: Admin) -> None:
        update = FeatureUpdate(level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.update_features({"a": 9, "b": update})
        assert set(failed.value.failures) == {"a", "b"}

        world.versions[ApiKey.UPDATE_FEATURES] = (0, 1)
        world.answer_in_turn(
            UpdateFeaturesRequest,
            UpdateFeaturesResponse(
                results=[
                    UpdatableFeatureResult(feature="a"),
                    UpdatableFeatureResult(feature="b", error_code=ErrorCode.INVALID_REQUEST),
                ]
            ),
        )

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, UpdateFeaturesRequest)]
    assert [(each.max_version_level, each.upgrade_type) for each in request.feature_updates] == [
        (9, 1),
        (0, 2),
    ]


def test_reassignments_are_started_and_cancelled() -> None:
    world = ScriptedCluster()
    world.answer(
        reassign.AlterPartitionReassignmentsRequest,
        lambda request, node: reassign.AlterPartitionReassignmentsResponse(
            responses=[
                reassign.ReassignableTopicResponse(
                    name="orders",
                    partitions=[
                        reassign.ReassignablePartitionResponse(partition_index=0),
                        reassign.ReassignablePartitionResponse(
                            partition_index=1, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                        ),
                    ],
                )
            ]
        ),
    )
    world.answer(
        moves.ListPartitionReassignmentsRequest,
        lambda request, node: moves.ListPartitionReassignmentsResponse(
            topics=[
                moves.OngoingTopicReassignment(
                    name="orders",
                    partitions=[
                        moves.OngoingPartitionReassignment(
                            partition_index=0,
                            replicas=[2, 1, 3],
                            adding_replicas=[2],
                            removing_replicas=[3],
                        )
                    ],
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.reassign_partitions({A: [2, 1], B: None})
        assert isinstance(failed.value.failures[B], errors.NoReassignmentInProgress)
        moving = await admin.list_reassignments()
        assert moving[A].target == (2, 1)

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, reassign.AlterPartitionReassignmentsRequest)]
    assert [each.replicas for each in request.topics[0].partitions] == [[2, 1], None]


def test_partitions_that_needed_no_election_are_left_out_if_none_was_named() -> None:
    world = ScriptedCluster()

    def script(request: elect.ElectLeadersRequest, node: ScriptedNode) -> elect.ElectLeadersResponse:
        return elect.ElectLeadersResponse(
            replica_election_results=[
                elect.ReplicaElectionResult(
                    topic="orders",
                    partition_result=[
                        elect.PartitionResult(partition_id=0),
                        elect.PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED),
                    ],
                )
            ]
        )

    world.answer(elect.ElectLeadersRequest, script)

    async def test(admin: Admin) -> None:
        assert await admin.elect_leaders() == {A: None}
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.elect_leaders([A, B], election=ElectionType.UNCLEAN)
        assert isinstance(failed.value.failures[B], errors.ElectionNotNeeded)

    run_admin(world, test)


def test_transactions_are_listed_by_all_brokers_and_described_by_coordinators() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.coordinators["pay"] = 2

    def lists(
        request: listing.ListTransactionsRequest, node: ScriptedNode
    ) -> listing.ListTransactionsResponse:
        return listing.ListTransactionsResponse(
            unknown_state_filters=[each for each in request.state_filters if each == "Odd"],
            transaction_states=[
                listing.TransactionState(
                    transactional_id=f"of-{node.id}", producer_id=node.id, transaction_state="Ongoing"
                )
            ],
        )

    world.answer(listing.ListTransactionsRequest, lists)
    world.answer(
        describe.DescribeTransactionsRequest,
        lambda request, node: describe.DescribeTransactionsResponse(
            transaction_states=[
                describe.TransactionState(
                    transactional_id="pay",
                    transaction_state="New in 2030",
                    transaction_timeout_ms=5,
                    transaction_start_time_ms=-1,
                    producer_id=7,
                    producer_epoch=1,
                    topics=[describe.TopicData(topic="orders", partitions=[0])],
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        listed = await admin.list_transactions()
        assert [(each.transactional_id, each.coordinator) for each in listed] == [("of-1", 1), ("of-2", 2)]
        with pytest.raises(errors.BadArgument, match="Odd"):
            await admin.list_transactions(states=["Odd"])
        found = await admin.describe_transaction("pay")
        assert (found.coordinator, found.state, found.started_ms) == (2, TransactionState.UNKNOWN, None)
        assert found.partitions == {A}

    run_admin(world, test)


def test_a_hanging_transaction_is_aborted_at_the_leader_and_a_producer_fenced_at_its_coordinator() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(2)}
    world.coordinators["pay"] = 1
    world.answer(
        producers.DescribeProducersRequest,
        lambda request, node: producers.DescribeProducersResponse(
            topics=[
                producers.TopicResponse(
                    name="orders",
                    partitions=[
                        producers.PartitionResponse(
                            partition_index=0,
                            active_producers=[
                                producers.ProducerState(
                                    producer_id=7,
                                    producer_epoch=1,
                                    coordinator_epoch=-1,
                                    current_txn_start_offset=4,
                                )
                            ],
                        )
                    ],
                )
            ]
        ),
    )
    world.answer(
        markers.WriteTxnMarkersRequest,
        lambda request, node: markers.WriteTxnMarkersResponse(
            markers=[
                markers.WritableTxnMarkerResult(
                    producer_id=7,
                    topics=[
                        markers.WritableTxnMarkerTopicResult(
                            name="orders",
                            partitions=[markers.WritableTxnMarkerPartitionResult(partition_index=0)],
                        )
                    ],
                )
            ]
        ),
    )
    world.answer(
        InitProducerIdRequest,
        lambda request, node: InitProducerIdResponse(producer_id=7, producer_epoch=2),
    )

    async def test(admin: Admin) -> None:
        (state,) = (await admin.describe_producers([A]))[A]
        assert (state.transaction_start_offset, state.coordinator_epoch) == (4, None)
        await admin.abort_transaction(A, producer_id=7, producer_epoch=1, coordinator_epoch=0)
        fenced = await admin.fence_producer("pay")
        assert (fenced.producer_id, fenced.producer_epoch) == (7, 2)
        await admin.describe_producers([A], broker=1)

    run_admin(world, test)
    ((node_id, request),) = asked(world, markers.WriteTxnMarkersRequest)
    assert node_id == 2
    assert request.markers[0].transaction_result is False
    assert [node for node, _ in asked(world, producers.DescribeProducersRequest)] == [1, 2]
