"""DescribeConfigs (key 32): settings of topics, nodes and other resources, and where each value comes from.
Served: v0 to v4.

v0 says of a value only whether it is the default; v1 tells its source and, on demand, its synonyms; v3 tells
its type and, on demand, its documentation. An empty list of keys asks for all, as none does. Secrets are
never told.
"""

from __future__ import annotations

import asyncio
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

RESOURCES_MAX = 20_000  # an answer of about 10 kB each must not take all the memory
RESOURCES_AT_ONCE = 16  # at most 50 ms between two turns of the loop, and mostly far less

IS_DEFAULT_VERSION = 0
LOGGER_SOURCE = 6


async def handle(
    broker: Broker, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    description = Description(broker, request, context.version)
    results = []
    for index, wanted in enumerate(request.resources):
        result = DescribeConfigsResult(
            resource_type=wanted.resource_type, resource_name=wanted.resource_name, configs=[]
        )
        try:
            if index >= RESOURCES_MAX:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"One request may name at most {RESOURCES_MAX} resources; split it.",
                )
            result.configs = description.of(wanted)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
        if index % RESOURCES_AT_ONCE == RESOURCES_AT_ONCE - 1:
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=results)


class Description:
    """The settings of resources, as one request wants them told."""

    def __init__(self, broker: Broker, request: DescribeConfigsRequest, version: int) -> None:
        self._broker = broker
        self._settings = broker.settings
        self._image = broker.metadata.image
        self._request = request
        self._version = version
        self._told: dict[object, list[DescribeConfigsResourceResult]] = {}
        """By all that an answer depends on."""

    def of(self, wanted: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        resource = ConfigResource(ResourceType.of(wanted.resource_type), wanted.resource_name)
        self._check(resource, wanted)
        keys = tuple(wanted.configuration_keys or ())
        name = resource.name if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) else None
        identity = (resource.type, name, frozenset(self._image.settings_of(resource).items()), keys)
        if identity not in self._told:
            self._told[identity] = self._tell(resource, keys)
        return self._told[identity]

    def _check(self, resource: ConfigResource, wanted: DescribeConfigsResource) -> None:
        match resource.type:
            case ResourceType.TOPIC:
                check_topic_name(resource.name)
                if resource.name not in self._image.topics:
                    raise Refused(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
                    )
            case ResourceType.BROKER:
                if resource.name:
                    check_own_node(self._broker, resource.name)
            case ResourceType.BROKER_LOGGER:
                check_own_node(self._broker, resource.name)
            case ResourceType.GROUP:
                _check_named(resource.name, "The group has no name.")
            case ResourceType.CLIENT_METRICS:
                _check_named(resource.name, "The client metrics subscription has no name.")
            case _:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wanted.resource_type}.")

    def _tell(self, resource: ConfigResource, keys: tuple[str, ...]) -> list[DescribeConfigsResourceResult]:
        if resource.type is ResourceType.BROKER_LOGGER:
            return _log_levels(keys)
        return [_answer(entry, self._request, self._version) for entry in self._entries(resource, keys)]

    def _entries(self, resource: ConfigResource, keys: tuple[str, ...]) -> Sequence[Entry]:
        overrides = self._image.settings_of(resource)
        match resource.type:
            case ResourceType.TOPIC:
                return describe_topic(resolve_topic(self._settings, self._image, resource.name), keys)
            case ResourceType.GROUP:
                return describe_group(GroupSettings.resolve(self._settings, overrides), keys)
            case ResourceType.CLIENT_METRICS:
                return describe_client_metrics(overrides, keys)
            case _:
                return (describe_broker if resource.name else describe_cluster)(self._settings, keys)


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


def _log_levels(keys: tuple[str, ...]) -> list[DescribeConfigsResourceResult]:
    return [
        DescribeConfigsResourceResult(
            name=name, value=level, read_only=False, config_source=LOGGER_SOURCE, is_sensitive=False
        )
        for name, level in log_levels.current_levels().items()
        if not keys or name in keys
    ]
