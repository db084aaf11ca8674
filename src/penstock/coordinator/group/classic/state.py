"""The states of a classic group, and the transitions between them."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """The values are those of the protocol."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members join, and wait for the others."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All members have joined; they wait for the leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Deleted, migrated to another type, or unloaded from this node."""


REACHED_FROM = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}
"""Only for membership tests: the order of the sets does not matter."""
