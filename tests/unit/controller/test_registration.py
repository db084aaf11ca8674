"""Which registrations of brokers and controllers are accepted; blocks of producer ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.controller import registration
from penstock.controller.producer_ids import BLOCK_SIZE, PRODUCER_ID_MAX, allocate_producer_ids
from penstock.metadata.errors import Refused
from penstock.metadata.features import SUPPORTED
from penstock.metadata.image import FeatureRange
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from penstock.protocol.types import Uuid
from unit.controller import clusters
from unit.controller.active import ActiveController
from unit.controller.clusters import after, cluster, node_uuid


def error_of(active: ActiveController, request: BrokerRegistrationRequest) -> Refused:
    with pytest.raises(Refused) as refused:
        active.decide(lambda state: registration.register_broker(state, request))
    return refused.value


@pytest.mark.parametrize(
    "log_dirs",
    [
        [],
        [node_uuid(1, "disk"), node_uuid(1, "disk")],
        [Uuid(bytes(15) + b"\x07")],
        [node_uuid(2, "disk")],
    ],
)
def test_invalid_directories_are_refused(log_dirs: list[Uuid]) -> None:
    active = ActiveController((1, 2))

    refused = error_of(active, clusters.registration(3, log_dirs=log_dirs))

    assert refused.error is ErrorCode.INVALID_REGISTRATION


def test_a_node_that_is_too_old_for_the_cluster_is_refused() -> None:
    supported = {**SUPPORTED, "metadata.version": FeatureRange(7, 29)}

    refused = error_of(ActiveController(), clusters.registration(1, features=supported))

    assert refused.error is ErrorCode.UNSUPPORTED_VERSION
    assert "metadata.version at level 30, but broker 1 supports 7-29" in refused.message


def test_a_registration_names_its_metadata_version() -> None:
    supported = {name: levels for name, levels in SUPPORTED.items() if name != "metadata.version"}

    refused = error_of(ActiveController(), clusters.registration(1, features=supported))

    assert refused.error is ErrorCode.INVALID_REGISTRATION


@pytest.mark.parametrize("failed_first", [True, False])
def test_a_broker_that_returns_without_the_directory_of_a_replica_cannot_lead_it(failed_first: bool) -> None:
    """It was elected cleanly with an empty log, and the complete replicas truncated theirs."""
    active = ActiveController((1,))
    one, two = node_uuid(2, "disk"), node_uuid(2, "second disk")
    active.register(2, log_dirs=[one, two])
    active.heartbeat(2)
    min_isr = {"min.insync.replicas": "2"}
    active.create(clusters.new_topic("t", assignments={0: [2, 1], 1: [2, 1]}, configs=dict(min_isr)))
    active.assign_directories(2, {two: [0], one: [1]})
    active.fence(1)
    if failed_first:
        active.heartbeat(2, offline=[two])
    active.fence(2)
    assert active.partition().eligible_leaders == (1, 2)

    active.register(2, log_dirs=[one])
    assert active.partition().eligible_leaders == (1,)
    active.assign_directories(2, {one: [0]})  # an empty log
    active.heartbeat(2)

    assert (active.partition().leader, active.partition().eligible_leaders) == (-1, (1,))
    assert active.partition(index=1).leader == 2  # it has this one
    active.join(1)
    assert active.partition().leader == 1


def controller_registration(metadata_version: int) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=node_uuid(7, "start"),
        zk_migration_ready=False,
        listeners=[Listener(name="CONTROLLER", host="localhost", port=9093, security_protocol=0)],
        features=[
            Feature(
                name=name,
                min_supported_version=levels.min_level,
                max_supported_version=metadata_version if name == "metadata.version" else levels.max_level,
            )
            for name, levels in SUPPORTED.items()
        ],
    )


def test_a_controller_registers_with_its_endpoints_and_features() -> None:
    active = ActiveController()

    active.decide(lambda state: registration.register_controller(state, controller_registration(30)))

    controller = active.image.controllers[7]
    assert controller.features["metadata.version"] == FeatureRange(19, 30)
    assert controller.endpoints[0].port == 9093


def test_a_controller_that_is_too_old_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        ActiveController().decide(
            lambda state: registration.register_controller(state, controller_registration(29))
        )

    assert refused.value.error is ErrorCode.UNSUPPORTED_VERSION


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    image = cluster()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=image.brokers[1].epoch)

    first = allocate_producer_ids(image, request)
    second = allocate_producer_ids(after(image, first), request)

    assert (first.response.producer_id_start, first.response.producer_id_len) == (0, BLOCK_SIZE)
    assert second.response.producer_id_start == BLOCK_SIZE


@pytest.mark.parametrize(
    ("broker_id", "error"),
    [(1, ErrorCode.STALE_BROKER_EPOCH), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_producer_ids_are_for_brokers_that_are_registered(broker_id: int, error: ErrorCode) -> None:
    with pytest.raises(Refused) as refused:
        allocate_producer_ids(cluster(), AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=12345))
    assert refused.value.error is error


def test_producer_ids_end_some_day() -> None:
    image = replace(cluster(), next_producer_id=PRODUCER_ID_MAX - BLOCK_SIZE + 1)

    with pytest.raises(Refused, match="No producer ids are left"):
        allocate_producer_ids(
            image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=image.brokers[1].epoch)
        )
