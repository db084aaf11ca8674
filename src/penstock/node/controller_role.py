"""The controller of a node: it votes in the quorum, and decides if it is the active controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.broker import controller_handlers
from penstock.broker.broker_watch import BrokerWatch
from penstock.broker.controller_registration import (
    RETRY_FIRST_MS,
    RETRY_MAX_MS,
    ControllerIdentity,
    ControllerRegistration,
)
from penstock.broker.controller_server import ControllerServer
from penstock.broker.dispatcher import Dispatcher
from penstock.broker.lifecycle import ControllerRequests
from penstock.controller import Controller
from penstock.metadata.cache import MetadataCache
from penstock.metadata.features import SUPPORTED
from penstock.metadata.image import Endpoint
from penstock.metadata.loader import MetadataLoader
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.types import Uuid
from penstock.quorum.driver import Quorum
from penstock.runtime import Runtime
from penstock.runtime.backoff import Backoff


class ControllerRole:
    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        inter_broker_listener: str,
        dynamic: DynamicSettings,
        runtime: Runtime,
        metadata: MetadataCache,
        loader: MetadataLoader,
        quorum: Quorum,
        bootstrap: Callable[[], Sequence[object] | None] | None = None,
    ) -> None:
        """`bootstrap` returns the first records of a new cluster."""
        self._node_id = node_id
        self._runtime = runtime
        self._metadata = metadata
        self.controller = Controller(
            node_id=node_id,
            cluster_id=cluster_id,
            quorum=quorum,
            loader=loader,
            settings=dynamic,
            rng=runtime.random,
            supervisor=runtime.supervisor,
            bootstrap=bootstrap,
        )
        self.server = ControllerServer(
            node_id=node_id,
            cluster_id=cluster_id,
            runtime=runtime,
            settings=dynamic,
            metadata=metadata,
            controller=self.controller,
            quorum=quorum,
        )
        self.dispatcher = Dispatcher(self.server, controller_handlers.TABLE)
        self._registration: ControllerRegistration | None = None
        self._watch = BrokerWatch(
            node_id=node_id,
            listener=inter_broker_listener,
            network=runtime.network,
            metadata=metadata,
            supervisor=runtime.supervisor,
            draw=runtime.random.random,
            gone=self.controller.broker_gone,
        )
        self.controller.on_active = self._watch.report_again

    def register(
        self,
        incarnation_id: Uuid,
        endpoints: tuple[Endpoint, ...],
        channel: ControllerRequests,
        *,
        timeout_ms: int,
    ) -> None:
        """Register this controller with the active one, in the background, and watch the brokers."""
        self._watch.start()
        self._registration = ControllerRegistration(
            ControllerIdentity(self._node_id, incarnation_id, endpoints, SUPPORTED),
            controller=channel,
            metadata=self._metadata,
            supervisor=self._runtime.supervisor,
            backoff=Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, draw=self._runtime.random.random),
            timeout_ms=timeout_ms,
        )
        self._registration.start()

    async def close(self) -> None:
        if self._registration is not None:
            await self._registration.close()
            await self._watch.close()
        await self.dispatcher.close()
