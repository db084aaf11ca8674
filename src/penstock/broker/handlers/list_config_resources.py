"""ListConfigResources (key 74): the resources that can have dynamic settings. Served: v0 and v1.

v0, formerly ListClientMetricsResources, lists only client metrics subscriptions. v1 adds resource types; an empty list
means all.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.image import MetadataImage
from penstock.metadata.resources import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_VERSION = 1
LISTED = tuple(each for each in ResourceType if each is not ResourceType.UNKNOWN)


def handle(
    broker: Broker, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    types = [ResourceType.CLIENT_METRICS]
    if context.version >= TYPES_VERSION:
        types = [ResourceType.of(number) for number in dict.fromkeys(request.resource_types)] or list(LISTED)
    if ResourceType.UNKNOWN in types:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    image = broker.metadata.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in types
            for name in _names(image, kind)
        ]
    )


def _names(image: MetadataImage, kind: ResourceType) -> list[str]:
    """All topics and brokers, but only the groups and subscriptions with settings."""
    match kind:
        case ResourceType.TOPIC:
            return list(image.topics.by_name)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(node_id) for node_id in sorted(image.brokers) if not image.brokers[node_id].is_fenced]
        case _:
            return sorted(resource.name for resource in image.configs if resource.type is kind)
