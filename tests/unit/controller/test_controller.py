"""The controller in motion: what is answered is committed, and what is committed is there after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.config.alter import Change, Operation
from penstock.controller import controller as controller_module
from penstock.controller.configs import Alteration
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.resources import topic_resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicState
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.types import ZERO_UUID
from unit.controller.clusters import new_topic, registration
from unit.controller.nodes import ControllerNode, settle


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ControllerNode]:
    node = ControllerNode(tmp_path)
    await node.start()
    yield node
    await node.controller.close()


def wanting(*topics: CreatableTopic, timeout_ms: int = 1000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)


def errors(response: CreateTopicsResponse) -> list[ErrorCode]:
    return [topic.error_code for topic in response.topics]


async def test_a_new_cluster_has_features_and_this_node_in_service(node: ControllerNode) -> None:
    assert node.image.features["metadata.version"] == 30
    assert node.image.brokers[1].is_active
    assert node.image.brokers[1].epoch > 0


async def test_what_was_answered_is_in_the_image_that_handlers_read(node: ControllerNode) -> None:
    response = await node.controller.create_topics(wanting(new_topic("t", 2, 1)))

    assert errors(response) == [ErrorCode.NONE]
    assert len(node.image.topics.by_name["t"].partitions) == 2


async def test_nothing_is_answered_nor_published_before_it_is_committed(node: ControllerNode) -> None:
    node.log.sync_gate.clear()
    creating = asyncio.create_task(node.controller.create_topics(wanting(new_topic("t", 1, 1))))
    await settle()

    assert not creating.done()
    assert "t" not in node.image.topics

    node.log.sync_gate.set()
    assert errors(await creating) == [ErrorCode.NONE]
    assert "t" in node.image.topics


async def test_a_second_request_sees_what_the_first_appended_and_waits_for_it(node: ControllerNode) -> None:
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


async def test_listeners_hear_of_every_change_once_and_in_order(node: ControllerNode) -> None:
    heard: list[MetadataDelta] = []
    node.cache.subscribe(heard.append)

    await node.controller.create_topics(wanting(new_topic("a", 1, 1)))
    await node.controller.create_topics(wanting(new_topic("b", 1, 1)))

    assert [[change.after and change.after.name for change in delta.topics.values()] for delta in heard] == [
        ["a"],
        ["b"],
    ]


async def test_a_request_that_waits_too_long_is_told_so_and_done_all_the_same(node: ControllerNode) -> None:
    node.log.sync_gate.clear()

    with pytest.raises(Refused) as refused:
        await node.controller.create_topics(wanting(new_topic("t", 1, 1), timeout_ms=1))
    assert refused.value.error is ErrorCode.REQUEST_TIMED_OUT
    assert not node.controller._pending[-1].waiters, (
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


async def test_those_who_wait_when_the_disk_fails_are_sent_away(node: ControllerNode) -> None:
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
    assert await controller.allocate_producer_ids(1) == (0, 1000)
    await controller.update_features(
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)]
        )
    )
    before = node.image
    await controller.close()

    controller = await node.start(joins=False)

    assert node.image == before
    await node.join()
    assert await controller.allocate_producer_ids(1) == (1000, 1000)


async def test_a_restart_registers_a_new_incarnation_and_starts_new_leader_epochs(
    node: ControllerNode,
) -> None:
    await node.controller.create_topics(wanting(new_topic("t", 1, 1)))
    epoch = node.image.brokers[1].epoch
    await node.controller.close()

    await node.start()

    assert node.image.brokers[1].epoch > epoch
    assert node.image.brokers[1].is_active
    assert node.image.topics.by_name["t"].partitions[0].leader_epoch == 1


async def test_a_power_cut_takes_only_what_was_never_answered(node: ControllerNode) -> None:
    await node.controller.create_topics(wanting(new_topic("kept", 1, 1)))
    node.log.sync_gate.clear()
    creating = asyncio.create_task(node.controller.create_topics(wanting(new_topic("lost", 1, 1))))
    await settle()
    await node.cut_power()
    with pytest.raises(Refused):
        await creating

    await node.start()

    assert list(node.image.topics.by_name) == ["kept"]


async def test_topics_that_are_asked_about_are_created_and_refusals_are_told(node: ControllerNode) -> None:
    await node.controller.create_topics(wanting(new_topic("there", 1, 1)))

    refused = await node.controller.create_topics_automatically(["there", "new", "no/name"])

    assert refused == {"no/name": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert "new" in node.image.topics


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
    await node.controller.close()
    batch_count = len(node.log.batches)
    monkeypatch.setattr(controller_module, "BATCH_BYTES_MAX", 4096)

    await node.start()

    assert len(node.log.batches) - batch_count > 5
    assert {partition.leader_epoch for partition in node.image.topics.by_name["t"].partitions} == {1}


async def test_what_waits_for_the_disk_is_bounded(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "PENDING_MAX", 1)
    node.log.sync_gate.clear()
    creating = asyncio.create_task(node.controller.create_topics(wanting(new_topic("t", 1, 1))))
    await settle()

    with pytest.raises(Refused, match="Too many changes wait"):
        await node.controller.create_topics(wanting(new_topic("u", 1, 1)))

    node.log.sync_gate.set()
    await creating


async def test_the_quorum_can_be_described(node: ControllerNode) -> None:
    status = node.controller.quorum_status()

    assert (status.leader_id, status.epoch) == (1, 1)
    assert status.high_watermark == node.log.end_offset


async def test_a_controller_registers_beside_its_node(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path)
    controller = await node.start(joins=False)

    await controller.join(registration(), controller=registration())

    assert list(node.image.controllers) == [1]
    await controller.close()
