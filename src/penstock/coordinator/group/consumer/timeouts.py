"""The deadlines of members: who is silent for too long, or keeps others waiting, is put out of the group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.outcome import DONE, Outcome
from penstock.coordinator.timers import Timers

PutOut = Callable[[str, str, str, int | None], Outcome[None]]
"""Of group, member id, the reason, and the epoch in which the member must still be; None: in any."""


class Timeouts:
    def __init__(self, timers: Timers, put_out: PutOut) -> None:
        self._timers = timers
        self._put_out = put_out

    def set_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A sign of life."""
        self._timers.set(
            ("consumer session", group_id, member_id),
            timeout_ms,
            partial(self._put_out, group_id, member_id, "its session ended", None),
        )

    def set_rebalance(self, group_id: str, member: ConsumerMember) -> None:
        """The member has been told to give up partitions, and should say soon that it has."""
        self._timers.set(
            ("consumer rebalance", group_id, member.member_id),
            member.rebalance_timeout_ms,
            partial(
                self._put_out, group_id, member.member_id, "it did not give up its partitions", member.epoch
            ),
        )

    def cancel_rebalance(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer rebalance", group_id, member_id))

    def expect_newcomer(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A classic member has been given this id, and should come with it (KIP-394)."""
        self._timers.set(("consumer newcomer", group_id, member_id), timeout_ms, lambda: DONE)

    def expects_newcomer(self, group_id: str, member_id: str) -> bool:
        return ("consumer newcomer", group_id, member_id) in self._timers

    def cancel_newcomer(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer newcomer", group_id, member_id))

    def expect_join(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member has been told to join again. The first telling counts."""
        key = ("consumer join", group_id, member.member_id)
        if key not in self._timers:
            self._timers.set(
                key,
                member.rebalance_timeout_ms,
                partial(self._put_out, group_id, member.member_id, "it did not join again in time", None),
            )

    def cancel_join(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer join", group_id, member_id))

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A classic member has joined, and should ask for its assignment."""
        self._timers.set(
            ("consumer sync", group_id, member_id),
            timeout_ms,
            partial(self._put_out, group_id, member_id, "it did not sync in time", None),
        )

    def cancel_sync(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer sync", group_id, member_id))

    def cancel_all(self, group_id: str, member_id: str) -> None:
        for kind in ("consumer session", "consumer rebalance", "consumer join", "consumer sync"):
            self._timers.cancel((kind, group_id, member_id))
