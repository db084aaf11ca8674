"""DescribeConfigs (key 32): settings of topics, nodes and other resources, and where each value comes from.
Served: v0 to v4.

v0 says of a value only whether it is the default; v1 tells its source and, on demand, its synonyms; v3 tells
its type and, on demand, its documentation. An empty list of keys asks for all, as none does. Secrets are
never told.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker import log_levels
from penstock.broker.altering import check_own_node
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.config.describe import (
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_topic,
)
from penstock.config.group import GroupSettings
from penstock.metadata.errors import Refused
from penstock.metadata.names import check_topic_name
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.metadata.settings import resolve_topic
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

IS_DEFAULT_VERSION = 0
LOGGER_SOURCE = 6


def handle(
    broker: Broker, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    results = []
    for wanted in request.resources:
        result = DescribeConfigsResult(
            resource_type=wanted.resource_type, resource_name=wanted.resource_name, configs=[]
        )
        try:
            if wanted.resource_type == ResourceType.BROKER_LOGGER:
                result.configs = _log_levels(broker, wanted)
            else:
                entries = _entries(broker, wanted)
                result.configs = [_answer(entry, request, context.version) for entry in entries]
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _entries(broker: Broker, wanted: DescribeConfigsResource) -> Sequence[Entry]:
    image = broker.metadata.image
    name, keys = wanted.resource_name, wanted.configuration_keys
    resource = ConfigResource(ResourceType.of(wanted.resource_type), name)
    match resource.type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            return describe_topic(resolve_topic(broker.settings, image, name), keys)
        case ResourceType.BROKER:
            if not name:
                return describe_cluster(broker.settings, keys)
            check_own_node(broker, name)
            return describe_broker(broker.settings, keys)
        case ResourceType.GROUP:
            _check_named(name, "Group name must not be empty")
            return describe_group(GroupSettings.resolve(broker.settings, image.settings_of(resource)), keys)
        case ResourceType.CLIENT_METRICS:
            _check_named(name, "Client metrics subscription name must not be empty")
            return describe_client_metrics(image.settings_of(resource), keys)
        case _:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wanted.resource_type}")


def _check_named(name: str, message: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, message)


def _answer(entry: Entry, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.type,
    )
    if version == IS_DEFAULT_VERSION:
        result.is_default = entry.is_default
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    if request.include_documentation:
        result.documentation = entry.documentation
    return result


def _log_levels(broker: Broker, wanted: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    check_own_node(broker, wanted.resource_name)
    return [
        DescribeConfigsResourceResult(
            name=name, value=level, read_only=False, config_source=LOGGER_SOURCE, is_sensitive=False
        )
        for name, level in log_levels.current_levels().items()
        if not wanted.configuration_keys or name in wanted.configuration_keys
    ]
