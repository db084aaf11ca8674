"""DescribeCluster, ApiVersions and UnregisterBroker; Metadata, for brokers before Kafka 2.8."""

from __future__ import annotations

from penstock.client.admin.cluster import BrokerDescription, ClusterDescription, ServedApi
from penstock.client.admin.operations import operations_of
from penstock.client.admin.wire.reading import check, known
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

BROKERS, CONTROLLERS = 1, 2


def describe_request(*, fenced: bool, operations: bool, of_controllers: bool) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        endpoint_type=CONTROLLERS if of_controllers else BROKERS,
        include_fenced_brokers=fenced,
    )


def read_described(response: DescribeClusterResponse) -> ClusterDescription:
    check(response.error_code, response.error_message)
    brokers = [
        BrokerDescription(
            id=told.broker_id, host=told.host, port=told.port, rack=told.rack, is_fenced=told.is_fenced
        )
        for told in response.brokers
    ]
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller=known(response.controller_id),
        brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
        authorized_operations=operations_of(response.cluster_authorized_operations),
    )


def metadata_request() -> MetadataRequest:
    return MetadataRequest(topics=[], allow_auto_topic_creation=False)


def read_metadata(response: MetadataResponse) -> ClusterDescription:
    check(response.error_code)
    brokers = [
        BrokerDescription(id=told.node_id, host=told.host, port=told.port, rack=told.rack)
        for told in response.brokers
    ]
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller=known(response.controller_id),
        brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
    )


def versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="penstock", client_software_version="admin")


def read_versions(response: ApiVersionsResponse) -> tuple[ServedApi, ...]:
    check(response.error_code)
    return tuple(_served(told) for told in sorted(response.api_keys, key=lambda told: told.api_key))


def _served(told: ApiVersion) -> ServedApi:
    name, usable = f"UNKNOWN({told.api_key})", None
    if told.api_key in _KEYS:
        ours = api(_KEYS[told.api_key])
        newest = min(told.max_version, ours.last_version)
        name, usable = ours.name, newest if newest >= max(told.min_version, ours.first_version) else None
    return ServedApi(
        key=told.api_key,
        name=name,
        first_version=told.min_version,
        last_version=told.max_version,
        usable_version=usable,
    )


_KEYS = {int(key): key for key in ApiKey}


def unregister_request(broker: int) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=broker)


def check_unregistered(response: UnregisterBrokerResponse, broker: int) -> None:
    check(response.error_code, response.error_message, f"broker {broker}")
