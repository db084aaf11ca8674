"""The part that DescribeConfigs shares on brokers and on controllers: the settings of a resource."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from penstock.broker import log_levels
from penstock.broker.altering import check_own_node
from penstock.config.broker import BrokerSettings
from penstock.config.describe import (
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_topic,
)
from penstock.config.group import GroupSettings
from penstock.metadata.cache import MetadataCache
from penstock.metadata.errors import Refused, unknown_topic
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

RESOURCES_MAX = 20_000  # at about 10 kB each, a response must not use up the memory
RESOURCES_AT_ONCE = 16  # per turn of the loop: at most 50 ms, mostly far less

IS_DEFAULT_VERSION = 0
LOGGER_SOURCE = 6


class Described(Protocol):
    """A broker or a controller: what a description is made from."""

    @property
    def node_id(self) -> int: ...
    @property
    def settings(self) -> BrokerSettings: ...
    @property
    def metadata(self) -> MetadataCache: ...


async def describe_configs(
    node: Described, request: DescribeConfigsRequest, version: int
) -> DescribeConfigsResponse:
    describer = Describer(node, request, version)
    results = []
    for index, wanted in enumerate(request.resources):
        result = DescribeConfigsResult(
            resource_type=wanted.resource_type, resource_name=wanted.resource_name, configs=[]
        )
        try:
            if index >= RESOURCES_MAX:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"A request can contain at most {RESOURCES_MAX} resources; split it.",
                )
            result.configs = describer.describe(wanted)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
        if index % RESOURCES_AT_ONCE == RESOURCES_AT_ONCE - 1:
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=results)


class Describer:
    """Describes resources for one request."""

    def __init__(self, node: Described, request: DescribeConfigsRequest, version: int) -> None:
        self._node_id = node.node_id
        self._settings = node.settings
        self._image = node.metadata.image
        self._request = request
        self._version = version
        self._results: dict[object, list[DescribeConfigsResourceResult]] = {}
        """Results by everything that they depend on."""

    def describe(self, wanted: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        resource = ConfigResource(ResourceType.of(wanted.resource_type), wanted.resource_name)
        self._check(resource, wanted)
        keys = tuple(wanted.configuration_keys or ())
        name = resource.name if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) else None
        identity = (resource.type, name, frozenset(self._image.settings_of(resource).items()), keys)
        if identity not in self._results:
            self._results[identity] = self._describe(resource, keys)
        return self._results[identity]

    def _check(self, resource: ConfigResource, wanted: DescribeConfigsResource) -> None:
        match resource.type:
            case ResourceType.TOPIC:
                check_topic_name(resource.name)
                if resource.name not in self._image.topics:
                    raise unknown_topic(resource.name)
            case ResourceType.BROKER:
                if resource.name:
                    check_own_node(self._node_id, resource.name)
            case ResourceType.BROKER_LOGGER:
                check_own_node(self._node_id, resource.name)
            case ResourceType.GROUP:
                _check_named(resource.name, "The group has no name.")
            case ResourceType.CLIENT_METRICS:
                _check_named(resource.name, "The client metrics subscription has no name.")
            case _:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wanted.resource_type}.")

    def _describe(
        self, resource: ConfigResource, keys: tuple[str, ...]
    ) -> list[DescribeConfigsResourceResult]:
        if resource.type is ResourceType.BROKER_LOGGER:
            return _log_levels(keys)
        return [_result(entry, self._request, self._version) for entry in self._entries(resource, keys)]

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


def _result(entry: Entry, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResourceResult:
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
