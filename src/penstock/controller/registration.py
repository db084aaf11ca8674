"""Registration of brokers and controllers (KIP-631, KIP-919), and removal of brokers that will not come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from penstock.controller.brokers import find_broker, is_alone
from penstock.controller.directories import directory_of
from penstock.controller.leadership import LeaderRules, partition_changes
from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState
from penstock.metadata.directories import is_online, is_reserved
from penstock.metadata.errors import Refused
from penstock.metadata.features import ELIGIBLE_LEADERS, METADATA_VERSION
from penstock.metadata.image import BrokerImage, FeatureRange
from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.types import Uuid, uuid_text

T = TypeVar("T")


def register_broker(
    state: ControllerState, request: BrokerRegistrationRequest
) -> Outcome[BrokerRegistrationResponse]:
    """Register a starting broker as fenced.

    Its broker epoch is the offset of the first record, so it is unique. A second registration of the same incarnation
    keeps its epoch and updates the rest. A new incarnation is removed from the ISR of its partitions, because it has to
    catch up first. After an unclean shutdown it may have lost records, and is not eligible to lead either (KIP-966).
    The same for replicas in a log directory that it does not have any more.
    """
    _check_cluster_id(state, request.cluster_id)
    existing = state.image.brokers.get(request.broker_id)
    is_same = existing is not None and existing.incarnation_id == request.incarnation_id
    if not is_same and state.sessions.is_alive(request.broker_id, now_ms=state.now_ms):
        raise Refused(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker with node id {request.broker_id} is running. If this broker was just restarted, it can "
            "register once the session of its earlier process has expired.",
        )
    if request.is_migrating_zk_broker:
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Brokers that use ZooKeeper are not supported.")
    _check_directories(state, request)
    _check_features(state, request)
    records: list[object] = []
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=state.next_offset,
        end_points=[_endpoint(BrokerEndpoint, each) for each in request.listeners],
        features=[_feature(BrokerFeature, each) for each in request.features],
        rack=request.rack,
        log_dirs=list(request.log_dirs),
    )
    if existing is not None and is_same:
        record.broker_epoch = existing.epoch
        record.fenced = existing.is_fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        record.cordoned_log_dirs = list(existing.cordoned_directories) or None
    else:
        records += _changes_after_restart(state, existing, request)
    records.append(record)
    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return Outcome(records, response, is_atomic=False)


def unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest
) -> Outcome[UnregisterBrokerResponse]:
    """Remove a broker. It keeps its place in the replica lists: move its partitions first."""
    node_id = request.broker_id
    broker = find_broker(state.image, node_id)
    rules = LeaderRules(state, excluded=(node_id,))
    keys = state.index.in_sync_or_eligible(node_id)
    records: list[object] = list(partition_changes(state, keys, rules, leaving=node_id))
    records.append(UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.epoch))
    return Outcome(records, UnregisterBrokerResponse(), is_atomic=False)


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest
) -> Outcome[ControllerRegistrationResponse]:
    """Register a controller with its endpoints and features (KIP-919)."""
    if request.zk_migration_ready:
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Migrations from ZooKeeper are not supported.")
    supported = {each.name: _range(each) for each in request.features}
    for name, level in state.image.features.items():
        if level not in supported.get(name, _ABSENT):
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster has {name} at level {level}, but controller {request.controller_id} supports "
                f"{supported.get(name, _ABSENT)}.",
            )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[_endpoint(ControllerEndpoint, each) for each in request.listeners],
        features=[_feature(ControllerFeature, each) for each in request.features],
    )
    return Outcome([record], ControllerRegistrationResponse())


def _changes_after_restart(
    state: ControllerState, existing: BrokerImage | None, request: BrokerRegistrationRequest
) -> list[object]:
    node_id = request.broker_id
    is_clean = existing is not None and existing.epoch == request.previous_broker_epoch
    has_all_directories = existing is not None and set(existing.directories) <= set(request.log_dirs)
    if is_clean and has_all_directories and is_alone(state, node_id):
        return []
    rules = LeaderRules(state, excluded=(node_id,))
    if not state.image.features.get(ELIGIBLE_LEADERS):
        return list(partition_changes(state, state.index.in_sync(node_id), rules, leaving=node_id))
    keys = state.index.in_sync_or_eligible(node_id)
    if not is_clean:
        return list(partition_changes(state, keys, rules, unclean_shutdown=node_id))
    # Without its log directory a replica has no records: it is as after an unclean shutdown.
    lost = [key for key in keys if not is_online(directory_of(state, key, node_id), request.log_dirs)]
    kept = set(state.index.in_sync(node_id)).difference(lost)
    return [
        *partition_changes(state, lost, rules, unclean_shutdown=node_id),
        *partition_changes(state, [key for key in keys if key in kept], rules, leaving=node_id),
    ]


def _check_cluster_id(state: ControllerState, cluster_id: str) -> None:
    if cluster_id != state.cluster_id:
        raise Refused(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"This cluster has the id {state.cluster_id}, but the request is for the cluster {cluster_id}.",
        )


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    directories: Sequence[Uuid] = request.log_dirs
    if not directories:
        raise Refused(
            ErrorCode.INVALID_REGISTRATION, "A broker must register with at least one log directory."
        )
    if len(set(directories)) != len(directories):
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Two log directories have the same id.")
    for directory in directories:
        if is_reserved(directory):
            raise Refused(
                ErrorCode.INVALID_REGISTRATION, f"{uuid_text(directory)} is a reserved directory id."
            )
        for other in state.image.brokers.values():
            if other.node_id != request.broker_id and directory in other.directories:
                raise Refused(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {other.node_id} is already registered with the log directory {uuid_text(directory)}.",
                )


_ABSENT = FeatureRange(0, 0)


def _check_features(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    supported = {each.name: _range(each) for each in request.features}
    if METADATA_VERSION not in supported:
        raise Refused(
            ErrorCode.INVALID_REGISTRATION, f"The registration has no supported {METADATA_VERSION}."
        )
    for name, level in state.image.features.items():
        if level not in supported.get(name, _ABSENT):
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster has {name} at level {level}, but broker {request.broker_id} supports "
                f"{supported.get(name, _ABSENT)}.",
            )


class _Listener(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class _Feature(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def _endpoint(make: Callable[..., T], listener: _Listener) -> T:
    return make(
        name=listener.name,
        host=listener.host,
        port=listener.port,
        security_protocol=listener.security_protocol,
    )


def _feature(make: Callable[..., T], feature: _Feature) -> T:
    return make(
        name=feature.name,
        min_supported_version=feature.min_supported_version,
        max_supported_version=feature.max_supported_version,
    )


def _range(feature: _Feature) -> FeatureRange:
    return FeatureRange(feature.min_supported_version, feature.max_supported_version)
