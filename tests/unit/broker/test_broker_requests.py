"""Requests to other brokers: where they are sent, and what ends them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.datapath import LISTENER, Cluster
from penstock.broker.broker_requests import PURPOSE, BrokerRequests
from penstock.metadata.records.brokers import FenceBrokerRecord, UnregisterBrokerRecord
from penstock.net.node_connections import NodeAddress
from penstock.net.request_errors import Disconnected


class Connections:
    def __init__(self) -> None:
        self.asked: list[tuple[NodeAddress, str]] = []
        self.dropped: list[tuple[int, str]] = []

    async def ask(self, address: NodeAddress, purpose: str, request: object, *, timeout_s: float) -> str:
        self.asked.append((address, purpose))
        return "answer"

    def drop(self, node_id: int, purpose: str) -> None:
        self.dropped.append((node_id, purpose))


@pytest.fixture
def connections() -> Connections:
    return Connections()


@pytest.fixture
def requests(cluster: Cluster, connections: Connections) -> BrokerRequests:
    cluster.add_broker(2)
    fake: Any = connections
    made = BrokerRequests(fake, lambda: cluster.metadata.image, listener=LISTENER)
    cluster.metadata.subscribe(made.metadata_changed)
    return made


async def test_the_address_of_a_broker_comes_from_the_metadata(
    requests: BrokerRequests, connections: Connections
) -> None:
    assert await requests.ask(2, object()) == "answer"
    assert connections.asked == [(NodeAddress(2, "plaintext-2", 9002), PURPOSE)]


async def test_an_unknown_or_fenced_broker_cannot_be_asked(
    cluster: Cluster, requests: BrokerRequests
) -> None:
    cluster.add_broker(3, fenced=True)
    for node_id in (3, 4):
        with pytest.raises(Disconnected, match="is not available"):
            await requests.ask(node_id, object())


async def test_requests_to_a_broker_that_is_fenced_do_not_wait_for_their_timeout(
    cluster: Cluster, requests: BrokerRequests, connections: Connections
) -> None:
    """A paused coordinator kept producers waiting for 30 seconds, though another broker had taken over."""
    cluster.publish(FenceBrokerRecord(id=2, epoch=2))
    assert connections.dropped == [(2, PURPOSE)]
    cluster.publish(UnregisterBrokerRecord(broker_id=2, broker_epoch=2))
    assert connections.dropped == [(2, PURPOSE)] * 2
