"""The states of a classic group, and the ways between them."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """As the protocol writes them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members come, and wait for the others."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have come; they wait for the leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Gone from this coordinator: deleted, turned into another type, or moved to another node."""


REACHED_FROM = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}
"""Membership only; nothing here is walked through in order."""
