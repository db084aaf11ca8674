"""Controllers that belong to another cluster: their addresses are in the settings by mistake, or the directories of
this node were formatted with another cluster id.

One of them is reported once. If all controllers that this node knows are strangers, and it has never had a leader, it
cannot be a member of the quorum, and says so instead of trying for ever.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode
from penstock.quorum.messages import NO_NODE, Peer, RequestFailed, Response
from penstock.quorum.voters import VoterEndpoint

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore

logger = logging.getLogger(__name__)

Address = tuple[str, int]


class QuorumRefused(Exception):
    """This node cannot be a member of the quorum."""


class Strangers:
    def __init__(self, own: tuple[VoterEndpoint, ...], cluster_id: str | None) -> None:
        self._own = {(endpoint.host, endpoint.port) for endpoint in own}
        self._cluster_id = cluster_id
        self._found: dict[Address, None] = {}
        self._has_had_leader = False

    def answered(self, sender: Peer, message: Response | RequestFailed, core: QuorumCore) -> None:
        """Raises QuorumRefused if all other controllers are strangers."""
        self._has_had_leader = self._has_had_leader or core.leader_id != NO_NODE
        if isinstance(message, RequestFailed) or message.error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._found.pop((sender.host, sender.port), None)
            return
        if (sender.host, sender.port) not in self._found:
            self._found[sender.host, sender.port] = None
            logger.warning(
                "the controller at %s:%d belongs to another cluster than this node (cluster %s); check "
                "controller.quorum.voters, controller.quorum.bootstrap.servers and the log directories",
                sender.host,
                sender.port,
                self._cluster_id,
            )
        known = {(peer.host, peer.port) for peer in core.known_controllers()} - self._own
        if not self._has_had_leader and known <= self._found.keys():
            where = ", ".join(f"{host}:{port}" for host, port in self._found)
            raise QuorumRefused(
                f"the controllers at {where} belong to another cluster than this node, whose log directories have the "
                f"cluster id {self._cluster_id}; correct the addresses of the controllers, or format the directories "
                "with the id of that cluster"
            )
