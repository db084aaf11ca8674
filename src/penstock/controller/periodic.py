"""Decisions that the active controller makes by itself, such as fencing brokers whose session has expired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.controller.balancer import balance, wait_to_balance_ms
from penstock.controller.elect_leaders import elect_missing_leaders, elect_preferred_leaders
from penstock.controller.fencing import fence_expired, wait_for_expiry_ms
from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState

SECOND_MS = 1000
FENCE_BROKERS = "fence brokers"
ELECT_MISSING_LEADERS = "elect missing leaders"


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A decision that the active controller makes again and again."""

    name: str
    wait_ms: Callable[[ControllerState], int]
    """How long to wait until the next decision. Asked before each."""
    decide: Callable[[ControllerState], Outcome[None]]
    """If the outcome is not complete, it is asked again without a wait."""


def _check_leaders_ms(state: ControllerState) -> int:
    interval: int = state.settings.get("leader.imbalance.check.interval.seconds")
    return interval * SECOND_MS


def _check_missing_ms(state: ControllerState) -> int:
    interval: int = state.settings.get("unclean.leader.election.interval.ms")
    return interval


PERIODIC: tuple[PeriodicTask, ...] = (
    PeriodicTask(FENCE_BROKERS, wait_for_expiry_ms, fence_expired),
    PeriodicTask("elect preferred leaders", _check_leaders_ms, elect_preferred_leaders),
    PeriodicTask(ELECT_MISSING_LEADERS, _check_missing_ms, elect_missing_leaders),
    PeriodicTask("balance replicas", wait_to_balance_ms, balance),
)
"""Run while this controller is active."""
