"""DescribeCluster, ApiVersions and UnregisterBroker; Metadata, for brokers before Kafka 2.8."""

from __future__ import annotations

from penstock.client.admin.cluster import BrokerDescription, ClusterDescription, ServedApi
from penstock.client.admin.operations import operations_of
from penstock.client.admin.wire.common import check, known
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
            id=result.broker_id,
            host=result.host,
            port=result.port,
            rack=result.rack,
            is_fenced=result.is_fenced,
        )
        for result in response.brokers
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
        BrokerDescription(id=result.node_id, host=result.host, port=result.port, rack=result.rack)
        for result in response.brokers
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
    return tuple(_served(result) for result in sorted(response.api_keys, key=lambda result: result.api_key))


def _served(result: ApiVersion) -> ServedApi:
    name, usable = f"UNKNOWN({result.api_key})", None
    if result.api_key in _KEYS:
        ours = api(_KEYS[result.api_key])
        newest = min(result.max_version, ours.last_version)
        name, usable = ours.name, newest if newest >= max(result.min_version, ours.first_version) else None
    return ServedApi(
        key=result.api_key,
        name=name,
        first_version=result.min_version,
        last_version=result.max_version,
        usable_version=usable,
    )


_KEYS = {int(key): key for key in ApiKey}


def unregister_request(broker: int) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=broker)


def check_unregistered(response: UnregisterBrokerResponse, broker: int) -> None:
    check(response.error_code, response.error_message, f"broker {broker}")
