"""Learning the epoch and its leader from other nodes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.quorum.messages import NO_NODE, Peer
from penstock.quorum.roles.role import RoleName

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore

logger = logging.getLogger(__name__)


def learn_leader(
    core: QuorumCore, epoch: int, leader_id: int, peer: Peer | None, now_ms: int, *, from_leader: bool = False
) -> bool:
    """Another node knows this epoch and leader. False if that contradicts what is known here. `from_leader`: the leader
    itself says so, now."""
    if epoch < core.epoch:
        return True
    if epoch == core.epoch and leader_id != NO_NODE and core.leader_id not in (NO_NODE, leader_id):
        logger.error(
            "epoch %d of the metadata quorum has two leaders, nodes %d and %d; check that no two nodes have the same "
            "id or a copy of the same disk",
            epoch,
            core.leader_id,
            leader_id,
        )
        return False
    if epoch > core.epoch and (peer is None or leader_id in (NO_NODE, core.me.node_id)):
        # An own leadership that this replica does not remember (it lost its state) is over, too.
        core.become_unattached(epoch, now_ms, leader_id=leader_id)
    elif leader_id in (NO_NODE, core.me.node_id):
        pass
    elif peer is None:
        if core.leader_id == NO_NODE:
            core.become_unattached(epoch, now_ms, leader_id=leader_id)
    elif epoch > core.epoch or _wants_leader(core, from_leader=from_leader):
        core.become_follower(epoch, peer, now_ms)
    return True


def _wants_leader(core: QuorumCore, *, from_leader: bool) -> bool:
    """In the same epoch: an election ends when its winner is known. A prospective replica that knows the leader, but
    cannot reach it, goes on until the leader itself speaks."""
    match core.role_name:
        case RoleName.UNATTACHED | RoleName.CANDIDATE:
            return True
        case RoleName.PROSPECTIVE:
            return from_leader or not core.has_leader
        case _:
            return False
