"""DescribeConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.client.admin.configs import (
    Config,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ResourceType,
)
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, setting_text, value_or_error
from penstock.client.errors import PenstockError
from penstock.protocol.messages.create_topics import CreatableTopicConfigs
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

SET, DELETE, APPEND, SUBTRACT = range(4)


def describe_request(
    resources: Sequence[ConfigResource], *, names: list[str] | None, synonyms: bool, documentation: bool
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type, resource_name=resource.name, configuration_keys=names
            )
            for resource in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def read_described(response: DescribeConfigsResponse) -> Results[ConfigResource, Config]:
    results: dict[ConfigResource, Config | PenstockError] = {}
    for result in response.results:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        config = {entry.name: _entry(entry) for entry in result.configs}
        results[resource] = value_or_error(result.error_code, result.error_message, resource, config)
    return results


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=ConfigSource(entry.config_source),
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        type=ConfigType(entry.config_type),
        documentation=entry.documentation,
        synonyms=tuple(
            ConfigSynonym(name=synonym.name, value=synonym.value, source=ConfigSource(synonym.source))
            for synonym in entry.synonyms
        ),
    )


def read_created_config(entries: Iterable[CreatableTopicConfigs]) -> Config:
    return {
        entry.name: ConfigEntry(
            name=entry.name,
            value=entry.value,
            source=ConfigSource(entry.config_source),
            is_read_only=entry.read_only,
            is_sensitive=entry.is_sensitive,
        )
        for entry in entries
    }


def alter_request(
    changes: Mapping[ConfigResource, ConfigChange], *, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type, resource_name=resource.name, configs=_operations(change)
            )
            for resource, change in changes.items()
        ],
        validate_only=validate_only,
    )


def _operations(change: ConfigChange) -> list[AlterableConfig]:
    with_values = ((SET, change.set), (APPEND, change.append), (SUBTRACT, change.subtract))
    return [
        *(
            AlterableConfig(name=name, config_operation=operation, value=setting_text(value))
            for operation, values in with_values
            for name, value in values.items()
        ),
        *(AlterableConfig(name=name, config_operation=DELETE, value=None) for name in change.unset),
    ]


def read_altered(response: IncrementalAlterConfigsResponse) -> Results[ConfigResource, None]:
    results: dict[ConfigResource, PenstockError | None] = {}
    for result in response.responses:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        results[resource] = value_or_error(result.error_code, result.error_message, resource, None)
    return results


def list_request(types: Sequence[ResourceType]) -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[int(each) for each in types])


def read_listed(response: ListConfigResourcesResponse) -> list[ConfigResource]:
    check(response.error_code)
    return sorted(
        ConfigResource(ResourceType(result.resource_type), result.resource_name)
        for result in response.config_resources
    )
