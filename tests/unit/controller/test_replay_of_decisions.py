"""After any sequence of requests, the image equals the replayed log, before and after a restart."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.config.alter import Change, Operation
from penstock.controller.configs import Alteration
from penstock.metadata.errors import Refused
from penstock.metadata.resources import CLUSTER_DEFAULTS, ConfigResource, ResourceType, topic_resource
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicState
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.types import ZERO_UUID
from unit.controller.clusters import new_topic, own_block
from unit.controller.nodes import ControllerNode

Step = Callable[[ControllerNode], Awaitable[object]]

names = st.sampled_from(["a", "b", "a.b", "a_b", "c-1", "../x", "__consumer_offsets"])
changes = st.builds(
    Change,
    st.sampled_from(["retention.ms", "cleanup.policy", "segment.ms", "nosuch"]),
    st.sampled_from(Operation),
    st.sampled_from(["1000", "compact", "delete", "-5"]),
)


def creating(name: str, partition_count: int, configs: dict[str, str | None], validate_only: bool) -> Step:
    topic = new_topic(name, partition_count, 1, configs=configs)
    request = CreateTopicsRequest(topics=[topic], validate_only=validate_only)
    return lambda node: node.controller.create_topics(request)


def deleting(wanted: list[str]) -> Step:
    states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in wanted]
    return lambda node: node.controller.delete_topics(states, timeout_ms=1000, version=6)


def growing(name: str, count: int) -> Step:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
    return lambda node: node.controller.create_partitions(request)


def altering(resource: ConfigResource, wanted: list[Change], is_replacement: bool) -> Step:
    alterations = [Alteration(resource, wanted, is_replacement)]
    return lambda node: node.controller.alter_configs(alterations, validate_only=False)


def updating(feature: str, level: int, kind: int) -> Step:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    return lambda node: node.controller.update_features(UpdateFeaturesRequest(feature_updates=[update]))


def allocating() -> Step:
    return lambda node: node.controller.allocate_producer_ids(own_block(node.image))


def restarting(is_clean: bool) -> Step:
    async def restart(node: ControllerNode) -> None:
        before = node.image
        await node.close()
        await node.start(joins=False)
        assert node.image == before
        await node.join(previous_broker_epoch=before.brokers[1].epoch if is_clean else -1)

    return restart


resources = st.one_of(
    names.map(topic_resource),
    st.just(CLUSTER_DEFAULTS),
    st.just(ConfigResource(ResourceType.BROKER, "1")),
    st.just(ConfigResource(ResourceType.GROUP, "g")),
)
steps = st.one_of(
    st.builds(
        creating,
        names,
        st.integers(-1, 4),
        st.dictionaries(st.just("retention.ms"), st.just("5")),
        st.booleans(),
    ),
    st.builds(deleting, st.lists(names, max_size=3)),
    st.builds(growing, names, st.integers(0, 6)),
    st.builds(altering, resources, st.lists(changes, max_size=3), st.booleans()),
    st.builds(
        updating,
        st.sampled_from(["group.version", "eligible.leader.replicas.version"]),
        st.integers(0, 2),
        st.integers(1, 3),
    ),
    st.builds(allocating),
    st.builds(restarting, st.booleans()),
)


@given(st.lists(steps, max_size=12))
@settings(max_examples=60, deadline=None)
def test_an_image_equals_the_replay_of_its_log(script: list[Step]) -> None:
    async def run(folder: Path) -> None:
        node = ControllerNode(folder)
        await node.start()
        for step in [*script, restarting(False)]:
            with suppress(Refused):
                await step(node)
        await node.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
