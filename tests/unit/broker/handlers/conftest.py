"""A broker with a real controller, on a metadata log in memory; it holds no partition and needs no disk."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.context import ANONYMOUS, RequestContext
from penstock.broker.handlers import handler_of
from penstock.broker.producer_ids import ProducerIds
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from unit.controller.clusters import NODE_ID, SETTINGS
from unit.controller.nodes import ControllerNode
from unit.quorum.fakes import FixedClock, InlineWorkers

Ask = Callable[..., Awaitable[Any]]


class Nothing:
    """Stands where a broker has its disk: any use of it is a bug."""


@pytest.fixture
async def controller_node(tmp_path: Path) -> AsyncIterator[ControllerNode]:
    node = ControllerNode(tmp_path)
    await node.start()
    yield node
    await node.controller.close()


@pytest.fixture
async def admin_broker(controller_node: ControllerNode) -> Broker:
    nothing: Any = Nothing()
    dynamic = DynamicSettings(SETTINGS)
    broker = Broker(
        node_id=NODE_ID,
        cluster_id="a cluster",
        runtime=Runtime(
            clock=FixedClock(),
            random=random.Random(1),
            disk=nothing,
            network=nothing,
            workers=InlineWorkers(),
        ),
        settings=dynamic.of_broker(controller_node.image),
        metadata=controller_node.cache,
        partitions=PartitionTable(node_id=NODE_ID, logs=nothing, topic_settings=nothing),
        logs=nothing,
        controller=controller_node.controller,
        groups=nothing,
        transactions=nothing,
        producer_ids=ProducerIds(controller_node.controller, NODE_ID),
    )

    def settings_changed(delta: MetadataDelta) -> None:
        broker.settings = dynamic.of_broker(delta.image)

    controller_node.cache.subscribe(settings_changed)
    return broker


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
        response: Any = handler_of(declaration.key)(admin_broker, received, context)
        if isawaitable(response):
            response = await response
        decoded, _ = codec(type(response), version).decode(codec(type(response), version).encode(response))
        return decoded

    return ask
