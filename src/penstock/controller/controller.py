"""The controller of a node. It decides only while it is active: between `elected` and `resigned`.

An active controller starts from the image of the loader, which has everything before its epoch. It answers requests
(`writer` decides, appends and waits) and makes decisions of its own (`periodic`). All other controllers refuse requests
with NOT_CONTROLLER; they follow the metadata log like any node.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from penstock.controller import (
    changes,
    configs,
    directories,
    features,
    fencing,
    partitions,
    producer_ids,
    registration,
    topics,
)
from penstock.controller.configs import Alteration
from penstock.controller.outcome import Outcome
from penstock.controller.periodic import ELECT_MISSING_LEADERS, FENCE_BROKERS, PERIODIC, PeriodicTask
from penstock.controller.placement import drained_brokers
from penstock.controller.state import ControllerState
from penstock.controller.writer import THIS_NODE, Decide, MetadataWriter
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.loader import MetadataLoader
from penstock.metadata.records import AbortTransactionRecord
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.update_features import UpdateFeaturesRequest
from penstock.quorum.driver import Quorum
from penstock.runtime import Supervisor

logger = logging.getLogger(__name__)

R = TypeVar("R")

OWN_TIMEOUT_MS = 30_000  # for requests of the node itself
REFUSED_WAIT_S = 0.1  # before a periodic decision is made again
THE_CONTROLLER = "the controller"  # the requester of its own decisions in log lines


class Controller:
    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        quorum: Quorum,
        loader: MetadataLoader,
        settings: DynamicSettings,
        rng: random.Random,
        supervisor: Supervisor,
        bootstrap: Callable[[], Sequence[object] | None] | None = None,
    ) -> None:
        """`bootstrap` returns the first records of a new cluster; by default those of the newest features."""
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._quorum = quorum
        self._loader = loader
        self._settings = settings
        self._random = rng
        self._supervisor = supervisor
        self._bootstrap = bootstrap
        self._writer = MetadataWriter(quorum, node_id=node_id, committed=self._change_committed)
        self._periodic: list[asyncio.Task[None]] = []
        self._waiting: dict[str, asyncio.Event] = {}
        """By the name of a periodic task: set to make its decision now."""
        self.on_active: Callable[[], None] | None = None
        """Called when this controller has become the active one."""

    @property
    def is_active(self) -> bool:
        return self._writer.state is not None

    async def run(self, decide: Decide[R], *, timeout_ms: int, requested_by: str = THIS_NODE) -> R:
        """Make a decision; return its response when its records are committed. Raises `Refused`."""
        if timeout_ms <= 0:
            # As in Kafka, which clients expect.
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The timeout of the request is {timeout_ms} ms; it must be greater than 0.",
            )
        outcome = self._writer.decide(decide, requested_by)
        await self._writer.until_committed(timeout_ms)
        return outcome.response

    # -- called by the quorum

    def elected(self, epoch: int) -> None:
        """This node leads the quorum: its controller becomes the active one."""
        has_open_transaction = self._loader.is_in_transaction
        self._loader.drop_transaction()
        state = ControllerState(
            self._loader.image,
            node_id=self._node_id,
            cluster_id=self._cluster_id,
            dynamic=self._settings,
            rng=self._random,
            now_ms=_now_ms(),
        )
        self._writer.begin(state)
        if has_open_transaction:
            self._writer.decide(lambda state: Outcome([AbortTransactionRecord()], None), THE_CONTROLLER)
        if not state.image.features:
            self._writer.decide(self._first_records, THE_CONTROLLER)
        for task in PERIODIC:
            self._waiting[task.name] = asyncio.Event()
            self._periodic.append(self._supervisor.run(task.name, partial(self._repeat, task)))
        # The last active controller may have failed in the middle of a change.
        self._wake(ELECT_MISSING_LEADERS)
        if self.on_active is not None:
            self.on_active()

    def committed(self, high_watermark: int) -> None:
        self._writer.committed(high_watermark)

    def resigned(self) -> None:
        """This node leads no more."""
        for task in self._periodic:
            task.cancel()
        self._periodic.clear()
        self._waiting.clear()
        self._writer.end()

    def _first_records(self, state: ControllerState) -> Outcome[None]:
        return features.bootstrap_records(state.settings, self._bootstrap() if self._bootstrap else None)

    def _change_committed(self, delta: MetadataDelta, requested_by: str) -> None:
        self._loader.publish(delta)
        changes.log_changes(delta, requested_by=requested_by)
        state = self._writer.state
        if state is not None and _has_new_active_broker(delta):
            state.leaderless = []  # a new round, because the broker may lead partitions that were examined already
            self._wake(ELECT_MISSING_LEADERS)

    def broker_gone(self, node_id: int, broker_epoch: int) -> None:
        """The process of a broker is gone: fence it now, if this controller is active."""
        state = self._writer.state
        broker = None if state is None else state.image.brokers.get(node_id)
        if state is not None and broker is not None and broker.epoch == broker_epoch:
            state.sessions.expire(node_id, now_ms=_now_ms())
            self._wake(FENCE_BROKERS)

    def _wake(self, name: str) -> None:
        """Make a periodic decision now."""
        if (event := self._waiting.get(name)) is not None:
            event.set()

    async def _repeat(self, task: PeriodicTask) -> None:
        woken = self._waiting[task.name]
        is_complete = True
        while (state := self._writer.state) is not None:
            state.now_ms = _now_ms()
            await _wait(woken, task.wait_ms(state) / 1000 if is_complete else 0)
            woken.clear()
            try:
                is_complete = self._writer.decide(task.decide, THE_CONTROLLER).is_complete
            except Refused as refused:
                # Resigned meanwhile, or too many changes wait for the metadata log.
                logger.debug("%s: %s", task.name, refused)
                await asyncio.sleep(REFUSED_WAIT_S)

    # -- requests of brokers and controllers

    async def register_broker(
        self, request: BrokerRegistrationRequest, *, requested_by: str = THIS_NODE
    ) -> BrokerRegistrationResponse:
        return await self._own(lambda state: registration.register_broker(state, request), requested_by)

    async def broker_heartbeat(
        self, request: BrokerHeartbeatRequest, *, requested_by: str = THIS_NODE
    ) -> BrokerHeartbeatResponse:
        return await self._own(lambda state: fencing.heartbeat(state, request), requested_by)

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, *, requested_by: str = THIS_NODE
    ) -> UnregisterBrokerResponse:
        return await self._own(lambda state: registration.unregister_broker(state, request), requested_by)

    async def register_controller(
        self, request: ControllerRegistrationRequest, *, requested_by: str = THIS_NODE
    ) -> ControllerRegistrationResponse:
        return await self._own(lambda state: registration.register_controller(state, request), requested_by)

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, *, requested_by: str = THIS_NODE
    ) -> AssignReplicasToDirsResponse:
        return await self._own(
            lambda state: directories.assign_replicas_to_dirs(state, request), requested_by
        )

    async def _own(self, decide: Decide[R], requested_by: str) -> R:
        """A request without a timeout of its own."""
        return await self.run(decide, timeout_ms=OWN_TIMEOUT_MS, requested_by=requested_by)

    # -- requests of clients

    async def create_topics(
        self, request: CreateTopicsRequest, *, requested_by: str = THIS_NODE
    ) -> CreateTopicsResponse:
        return await self.run(
            lambda state: topics.create_topics(
                state.image, request, settings=state.settings, rng=state.random
            ),
            timeout_ms=request.timeout_ms,
            requested_by=requested_by,
        )

    async def delete_topics(
        self,
        wanted: Sequence[DeleteTopicState],
        *,
        timeout_ms: int,
        version: int,
        requested_by: str = THIS_NODE,
    ) -> DeleteTopicsResponse:
        def decide(state: ControllerState) -> Outcome[DeleteTopicsResponse]:
            is_enabled = state.settings.get("delete.topic.enable")
            return topics.delete_topics(state.image, wanted, is_enabled=is_enabled, version=version)

        return await self.run(decide, timeout_ms=timeout_ms, requested_by=requested_by)

    async def create_partitions(
        self, request: CreatePartitionsRequest, *, requested_by: str = THIS_NODE
    ) -> CreatePartitionsResponse:
        return await self.run(
            lambda state: partitions.create_partitions(
                state.image, request, rng=state.random, drained=drained_brokers(state.settings)
            ),
            timeout_ms=request.timeout_ms,
            requested_by=requested_by,
        )

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool, requested_by: str = THIS_NODE
    ) -> list[Refused | None]:
        """For each alteration: why it was refused, or None if it was made."""
        return await self.run(
            lambda state: configs.alter_configs(
                state.image, alterations, settings=state.settings, validate_only=validate_only
            ),
            timeout_ms=OWN_TIMEOUT_MS,
            requested_by=requested_by,
        )

    async def update_features(self, request: UpdateFeaturesRequest, *, requested_by: str = THIS_NODE) -> None:
        """Update all features or none: raises `Refused` for the first one that cannot be updated."""
        await self.run(
            lambda state: features.update_features(
                state.image, request, settings=state.settings, node_id=state.node_id
            ),
            timeout_ms=request.timeout_ms,
            requested_by=requested_by,
        )

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, *, requested_by: str = THIS_NODE
    ) -> AllocateProducerIdsResponse:
        return await self._own(
            lambda state: producer_ids.allocate_producer_ids(state.image, request), requested_by
        )


def _has_new_active_broker(delta: MetadataDelta) -> bool:
    before, after = delta.before.brokers, delta.image.brokers
    return any(
        node_id in after
        and after[node_id].is_active
        and not (node_id in before and before[node_id].is_active)
        for node_id in delta.brokers
    )


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, but not longer."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
