"""Registers this controller with the active one (KIP-919): its endpoints, and the features that it supports.

UpdateFeatures checks the registrations, and DescribeCluster on a controller lists them. A controller registers again if
its registration is not in the metadata, for example after it was replaced by that of an earlier process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.broker.lifecycle import ControllerRequests
from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import Endpoint, FeatureRange
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import controller_registration as messages
from penstock.protocol.types import Uuid
from penstock.runtime import Supervisor
from penstock.runtime.backoff import Backoff

logger = logging.getLogger(__name__)

RETRY_FIRST_MS = 100
RETRY_MAX_MS = 60_000
APPLY_TIMEOUT_MS = 60_000  # a controller that lags must not fill the metadata log with registrations


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """What a controller registers."""

    node_id: int
    incarnation_id: Uuid
    """New at every start of the process."""
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, FeatureRange]


class ControllerRegistration:
    def __init__(
        self,
        identity: ControllerIdentity,
        *,
        controller: ControllerRequests,
        metadata: MetadataCache,
        supervisor: Supervisor,
        backoff: Backoff,
        timeout_ms: int,
    ) -> None:
        self._identity = identity
        self._controller = controller
        self._metadata = metadata
        self._supervisor = supervisor
        self._backoff = backoff
        self._timeout_ms = timeout_ms
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._metadata.subscribe(self._metadata_changed)
        self._task = self._supervisor.run("controller registration", self._run)

    async def close(self) -> None:
        if self._task is not None:
            self._metadata.unsubscribe(self._metadata_changed)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    @property
    def _is_registered(self) -> bool:
        registered = self._metadata.image.controllers.get(self._identity.node_id)
        return registered is not None and registered.incarnation_id == self._identity.incarnation_id

    async def _run(self) -> None:
        failures = 0
        while True:
            self._changed.clear()
            if self._is_registered:
                failures = 0
                await self._changed.wait()
                continue
            error = await self._register()
            if error is None:
                failures = 0
                await self._until_registered(APPLY_TIMEOUT_MS)
                continue
            failures += 1
            if failures == 1:
                logger.warning("registering this controller failed with %s; retrying", error.name)
            await self._until_registered(self._backoff.wait_ms(failures))

    async def _until_registered(self, timeout_ms: float) -> None:
        """Wait until the registration is in the metadata, but not longer. While this controller replays its history, it
        sees old registrations first."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self._is_registered:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    async def _register(self) -> ErrorCode | None:
        me = self._identity
        request = messages.ControllerRegistrationRequest(
            controller_id=me.node_id,
            incarnation_id=me.incarnation_id,
            zk_migration_ready=False,
            listeners=[
                messages.Listener(
                    name=each.listener,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in me.endpoints
            ],
            features=[
                messages.Feature(
                    name=name,
                    min_supported_version=each.min_level,
                    max_supported_version=each.max_level,
                )
                for name, each in me.features.items()
            ],
        )
        try:
            response: messages.ControllerRegistrationResponse = await self._controller.ask(
                request, timeout_ms=self._timeout_ms
            )
        except Refused as refused:
            return refused.error
        return None if response.error_code is ErrorCode.NONE else response.error_code

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        if delta.before.controllers is not delta.image.controllers:
            self._changed.set()
