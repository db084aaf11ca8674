"""A broker with a real controller and a metadata log in memory, without partitions and disk."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.context import ANONYMOUS, RequestContext
from penstock.broker.controller_channel import ControllerChannel
from penstock.broker.controller_server import ControllerServer
from penstock.broker.handlers import TABLE
from penstock.broker.producer_ids import AllocatedProducerIds, ProducerIds
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.settings import DynamicSettings
from penstock.net.node_connections import NodeAddress
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from unit.controller.clusters import NODE_ID, SETTINGS
from unit.controller.nodes import ControllerNode
from unit.quorum.fakes import FixedClock, InlineWorkers

Ask = Callable[..., Awaitable[Any]]


class Nothing:
    """Replaces the disk of a broker: any use of it is a bug."""


@pytest.fixture
async def controller_node(tmp_path: Path) -> AsyncIterator[ControllerNode]:
    node = ControllerNode(tmp_path)
    await node.start()
    yield node
    await node.close()


@pytest.fixture
async def admin_broker(controller_node: ControllerNode) -> Broker:
    nothing: Any = Nothing()
    dynamic = DynamicSettings(SETTINGS)
    runtime = Runtime(
        clock=FixedClock(), random=random.Random(1), disk=nothing, network=nothing, workers=InlineWorkers()
    )
    channel = ControllerChannel(
        node_id=NODE_ID,
        local=ControllerServer(
            node_id=NODE_ID,
            cluster_id="a cluster",
            runtime=runtime,
            settings=dynamic,
            metadata=controller_node.cache,
            controller=controller_node.controller,
            quorum=controller_node.quorum,
        ),
        leader=lambda: NodeAddress(NODE_ID, "", 0),
        connections=nothing,
        rng=runtime.random,
    )
    broker_epoch = controller_node.image.brokers[NODE_ID].epoch
    broker = Broker(
        node_id=NODE_ID,
        cluster_id="a cluster",
        runtime=runtime,
        settings=dynamic.of_broker(controller_node.image),
        metadata=controller_node.cache,
        partitions=PartitionTable(node_id=NODE_ID, logs=nothing, topic_settings=nothing),
        logs=nothing,
        channel=channel,
        groups=nothing,
        transactions=nothing,
        producer_ids=ProducerIds(AllocatedProducerIds(channel, lambda: broker_epoch), NODE_ID),
    )

    def settings_changed(delta: MetadataDelta) -> None:
        broker.settings = dynamic.of_broker(delta.image)

    controller_node.cache.subscribe(settings_changed)
    return broker


@pytest.fixture
async def no_controller(admin_broker: Broker, controller_node: ControllerNode) -> None:
    """This node does not lead the quorum any more, and is stopping."""
    await controller_node.close()
    admin_broker.channel.close()


@pytest.fixture
def ask(admin_broker: Broker) -> Ask:
    """Send a request as a client would: through the encoding of its version, both ways."""

    async def ask(request: Any, *, version: int | None = None) -> Any:
        declaration = declaration_of(type(request))
        assert declaration.key is not None
        version = declaration.last_version if version is None else version
        received, _ = codec(type(request), version).decode(codec(type(request), version).encode(request))
        context = RequestContext(
            declaration.key, version, 1, "a test", "127.0.0.1", "PLAINTEXT", ANONYMOUS, None
        )
        response: Any = TABLE.handler(declaration.key)(admin_broker, received, context)
        if isawaitable(response):
            response = await response
        decoded, _ = codec(type(response), version).decode(codec(type(response), version).encode(response))
        return decoded

    return ask
