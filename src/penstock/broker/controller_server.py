"""The parts of a node that the handlers of its controller listener use. `node` builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.config.broker import BrokerSettings
    from penstock.controller import Controller
    from penstock.metadata.cache import MetadataCache
    from penstock.metadata.settings import DynamicSettings
    from penstock.quorum.driver import Quorum
    from penstock.runtime import Runtime


class ControllerServer:
    """The target of `controller_handlers`. Every controller has one; only the active one decides."""

    __slots__ = ("_dynamic", "cluster_id", "controller", "metadata", "node_id", "quorum", "runtime")

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        runtime: Runtime,
        settings: DynamicSettings,
        metadata: MetadataCache,
        controller: Controller,
        quorum: Quorum,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.runtime = runtime
        self._dynamic = settings
        self.metadata = metadata
        self.controller = controller
        self.quorum = quorum

    @property
    def settings(self) -> BrokerSettings:
        """The settings of this node, with the dynamic ones."""
        return self._dynamic.of_broker(self.metadata.image)
