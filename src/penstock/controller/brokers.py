"""What several decisions ask about brokers."""

from __future__ import annotations

from penstock.controller.state import ControllerState
from penstock.metadata.errors import Refused
from penstock.metadata.image import BrokerImage, MetadataImage
from penstock.protocol.errors import ErrorCode


def find_broker(image: MetadataImage, node_id: int) -> BrokerImage:
    broker = image.brokers.get(node_id)
    if broker is None:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {node_id} is not registered.")
    return broker


def check_broker_epoch(image: MetadataImage, node_id: int, epoch: int) -> BrokerImage:
    """Refuse a request of a broker that is not registered, or of an earlier process of it."""
    broker = find_broker(image, node_id)
    if broker.epoch != epoch:
        raise Refused(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {node_id} has broker epoch {broker.epoch}, but the request has {epoch}.",
        )
    return broker


def is_alone(state: ControllerState, node_id: int) -> bool:
    """Whether the broker is this node and no other broker is registered. Then no other broker can take over its
    partitions, and no controller is left to notice that it is gone: a clean restart changes nothing."""
    return node_id == state.node_id and all(other == node_id for other in state.image.brokers)
