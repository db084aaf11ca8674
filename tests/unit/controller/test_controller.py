"""The controller: a response means that the change is committed, and a committed change survives a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.config.alter import Change, Operation
from penstock.controller import elect_leaders, fencing
from penstock.controller import writer as writer_module
from penstock.controller.configs import Alteration
from penstock.controller.outcome import Outcome
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.framing import encode_record
from penstock.metadata.records import BeginTransactionRecord, NoOpRecord, PartitionChangeRecord
from penstock.metadata.resources import topic_resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicState
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.types import ZERO_UUID
from unit.controller.clusters import new_topic, own_block
from unit.controller.nodes import ControllerNode, settle


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ControllerNode]:
    node = ControllerNode(tmp_path)
    await node.start()
    yield node
    await node.close()


def wanting(*topics: CreatableTopic, timeout_ms: int = 1000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)


def errors(response: CreateTopicsResponse) -> list[ErrorCode]:
    return [topic.error_code for topic in response.topics]


async def test_a_new_cluster_has_features_and_this_node_in_service(node: ControllerNode) -> None:
    assert node.image.features["metadata.version"] == 30
    assert node.image.brokers[1].is_active
    assert node.image.brokers[1].epoch > 0


async def test_a_completed_change_is_in_the_image_that_handlers_read(node: ControllerNode) -> None:
    response = await node.controller.create_topics(wanting(new_topic("t", 2, 1)))

    assert errors(response) == [ErrorCode.NONE]
    assert len(node.image.topics.by_name["t"].partitions) == 2


async def test_a_change_is_not_published_before_it_is_committed(node: ControllerNode) -> None:
    node.log.sync_gate.clear()
    creating = asyncio.create_task(node.controller.create_topics(wanting(new_topic("t", 1, 1))))
    await settle()

    assert not creating.done()
    assert "t" not in node.image.topics

    node.log.sync_gate.set()
    assert errors(await creating) == [ErrorCode.NONE]
    assert "t" in node.image.topics


async def test_a_second_request_sees_uncommitted_records_of_the_first_and_waits_for_them(
    node: ControllerNode,
) -> None:
    node.log.sync_gate.clear()
    first = asyncio.create_task(node.controller.create_topics(wanting(new_topic("t", 1, 1))))
    second = asyncio.create_task(node.controller.create_topics(wanting(new_topic("t", 1, 1))))
    await settle()

    assert not second.done(), "that the topic exists is true only once it is committed"

    node.log.sync_gate.set()
    assert errors(await first) == [ErrorCode.NONE]
    assert errors(await second) == [ErrorCode.TOPIC_ALREADY_EXISTS]


async def test_many_requests_share_a_sync(node: ControllerNode) -> None:
    syncs = node.log.sync_count

    await asyncio.gather(
        *(node.controller.create_topics(wanting(new_topic(f"t{index}", 1, 1))) for index in range(100))
    )

    assert len(node.image.topics) == 100
    assert node.log.sync_count - syncs <= 2


async def test_listeners_are_notified_of_every_change_once_and_in_order(node: ControllerNode) -> None:
    heard: list[MetadataDelta] = []
    node.cache.subscribe(heard.append)

    await node.controller.create_topics(wanting(new_topic("a", 1, 1)))
    await node.controller.create_topics(wanting(new_topic("b", 1, 1)))

    assert [[change.after and change.after.name for change in delta.topics.values()] for delta in heard] == [
        ["a"],
        ["b"],
    ]


async def test_a_request_that_times_out_may_still_be_committed(node: ControllerNode) -> None:
    node.log.sync_gate.clear()

    with pytest.raises(Refused) as refused:
        await node.controller.create_topics(wanting(new_topic("t", 1, 1), timeout_ms=1))
    assert refused.value.error is ErrorCode.REQUEST_TIMED_OUT
    assert not node.controller._writer._pending[-1].waiters, (
        "a log that is stuck gathers no requests that have given up"
    )

    node.log.sync_gate.set()
    await settle()
    assert "t" in node.image.topics


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_request_that_has_no_time_is_not_begun(node: ControllerNode, timeout_ms: int) -> None:
    with pytest.raises(Refused) as refused:
        await node.controller.create_topics(wanting(new_topic("t", 1, 1), timeout_ms=timeout_ms))

    assert refused.value.error is ErrorCode.REQUEST_TIMED_OUT
    await settle()
    assert "t" not in node.image.topics


async def test_waiting_requests_get_an_error_when_the_disk_fails(node: ControllerNode) -> None:
    node.log.sync_gate.clear()
    creating = asyncio.create_task(node.controller.create_topics(wanting(new_topic("t", 1, 1))))
    await settle()
    node.log.failure = OSError(5, "input/output error")
    node.log.sync_gate.set()

    with pytest.raises(Refused) as refused:
        await creating
    assert refused.value.error is ErrorCode.NOT_CONTROLLER
    assert isinstance(node.quorum.ended.exception(), OSError)

    with pytest.raises(Refused) as refused:
        await node.controller.create_topics(wanting(new_topic("u", 1, 1)))
    assert refused.value.error is ErrorCode.NOT_CONTROLLER


async def test_a_full_disk_refuses_and_forgets(node: ControllerNode) -> None:
    node.log.append_failure = OSError(28, "no space left on device")

    with pytest.raises(Refused) as refused:
        await node.controller.create_topics(wanting(new_topic("t", 1, 1)))

    assert refused.value.error is ErrorCode.NOT_CONTROLLER
    assert isinstance(node.quorum.ended.exception(), OSError)
    assert "t" not in node.image.topics


async def test_everything_is_there_again_after_a_restart(node: ControllerNode) -> None:
    controller = node.controller
    await controller.create_topics(wanting(new_topic("a.b", 1, 1, configs={"retention.ms": "9"})))
    await controller.create_topics(wanting(new_topic("gone", 1, 1)))
    await controller.create_partitions(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="a.b", count=4, assignments=None)],
            timeout_ms=1000,
            validate_only=False,
        )
    )
    await controller.alter_configs(
        [Alteration(topic_resource("a.b"), [Change("segment.ms", Operation.SET, "7")])], validate_only=False
    )
    await controller.delete_topics(
        [DeleteTopicState(name="gone", topic_id=ZERO_UUID)], timeout_ms=1000, version=6
    )
    block = await controller.allocate_producer_ids(own_block(node.image))
    assert (block.producer_id_start, block.producer_id_len) == (0, 1000)
    await controller.update_features(
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)]
        )
    )
    before = node.image
    await node.close()

    controller = await node.start(joins=False)

    assert node.image == before
    await node.join()
    block = await controller.allocate_producer_ids(own_block(node.image))
    assert (block.producer_id_start, block.producer_id_len) == (1000, 1000)


async def test_a_restart_registers_a_new_incarnation_and_starts_new_leader_epochs(
    node: ControllerNode,
) -> None:
    await node.controller.create_topics(wanting(new_topic("t", 1, 1)))
    epoch = node.image.brokers[1].epoch
    await node.close()

    await node.start()

    assert node.image.brokers[1].epoch > epoch
    assert node.image.brokers[1].is_active
    assert node.image.topics.by_name["t"].partitions[0].leader_epoch == 2, "one without a leader, one with it"


async def test_a_clean_restart_alone_changes_no_partition(node: ControllerNode) -> None:
    await node.controller.create_topics(wanting(new_topic("t", 1, 1)))
    before = node.image
    await node.close()

    await node.start(joins=False)
    await node.join(previous_broker_epoch=before.brokers[1].epoch)

    assert node.image.brokers[1].epoch > before.brokers[1].epoch
    assert node.image.topics == before.topics


async def test_a_power_cut_loses_only_unacknowledged_changes(node: ControllerNode) -> None:
    await node.controller.create_topics(wanting(new_topic("kept", 1, 1)))
    node.log.sync_gate.clear()
    creating = asyncio.create_task(node.controller.create_topics(wanting(new_topic("lost", 1, 1))))
    await settle()
    await node.cut_power()
    with pytest.raises(Refused):
        await creating

    await node.start()

    assert list(node.image.topics.by_name) == ["kept"]


async def test_a_change_that_is_too_large_for_one_batch_is_refused(node: ControllerNode) -> None:
    value = ",".join(f"{index}:{index}" for index in range(2500))
    configs: dict[str, str | None] = {"leader.replication.throttled.replicas": value}
    topics = [new_topic(f"t{index}", 1, 1, configs=configs) for index in range(400)]

    with pytest.raises(Refused) as refused:
        await node.controller.create_topics(wanting(*topics))

    assert refused.value.error is ErrorCode.POLICY_VIOLATION
    await node.controller.create_topics(wanting(new_topic("t0", 1, 1)))


async def test_a_node_with_more_partitions_than_fit_a_batch_comes_back(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.controller.create_topics(wanting(new_topic("t", 500, 1)))
    await node.close()
    batch_count = len(node.log.batches)
    monkeypatch.setattr(writer_module, "BATCH_BYTES_MAX", 4096)

    await node.start()

    assert len(node.log.batches) - batch_count > 5
    assert {partition.leader_epoch for partition in node.image.topics.by_name["t"].partitions} == {2}


async def test_the_number_of_pending_changes_is_limited(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "PENDING_MAX", 1)
    node.log.sync_gate.clear()
    creating = asyncio.create_task(node.controller.create_topics(wanting(new_topic("t", 1, 1))))
    await settle()

    with pytest.raises(Refused, match="Too many changes wait"):
        await node.controller.create_topics(wanting(new_topic("u", 1, 1)))

    node.log.sync_gate.set()
    await creating


async def test_a_new_active_controller_aborts_the_transaction_of_its_predecessor(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path)
    await node.start()
    node.quorum.append([encode_record(BeginTransactionRecord()), encode_record(NoOpRecord())])
    await node.close()

    await node.start()

    await node.controller.create_topics(wanting(new_topic("t", 1, 1)))
    await node.close()
    await node.start(joins=False)
    assert "t" in node.image.topics, "a replay of the log ends the transaction at the same place"
    await node.close()


async def test_a_new_active_controller_elects_leaders_that_its_predecessor_left_out(
    node: ControllerNode,
) -> None:
    await node.controller.create_topics(wanting(new_topic("t", 2, 1)))
    without_leader = PartitionChangeRecord(
        topic_id=node.image.topics.by_name["t"].topic_id,
        partition_id=1,
        leader=-1,
        isr=[],
        eligible_leader_replicas=[1],
    )
    await node.controller.run(lambda state: Outcome([without_leader], None), timeout_ms=1000)
    assert node.image.topics.by_name["t"].partitions[1].leader == -1
    await node.close()

    await node.start(joins=False)
    await settle()

    assert [each.leader for each in node.image.topics.by_name["t"].partitions] == [1, 1]


async def test_all_partitions_have_leaders_soon_after_their_broker_returns(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "PARTITIONS_MAX", 2)
    monkeypatch.setattr(elect_leaders, "ELECTIONS_MAX", 2)
    await node.controller.create_topics(wanting(new_topic("t", 7, 1)))
    await node.close()

    await node.start()
    await settle()

    assert {partition.leader for partition in node.image.topics.by_name["t"].partitions} == {1}
