"""Deliberate bugs of the core, which the simulation must find. Each breaks one rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.quorum.core import QuorumCore
from penstock.quorum.in_flight import RequestsInFlight
from penstock.quorum.messages import Message, Peer, VoteRequest
from penstock.quorum.outbox import Outbox
from penstock.quorum.ready import HardState, Ready
from penstock.quorum.roles.leader import Leader
from unit.quorum.core_simulation import Simulation


class _HastyOutbox(Outbox):
    def take(self, state: HardState) -> Ready:
        unsaved = None if self._on_disk == state else state
        self._on_disk = state
        return replace(super().take(state), hard_state=unsaved)

    def saved(self, state: HardState) -> None:
        pass


class VotesBeforeItIsSaved(QuorumCore):
    """Answers leave, and the own vote counts, before the state file is written."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.outbox = _HastyOutbox(given["hard_state"])


class ElectsWithoutLogCheck(QuorumCore):
    """A vote is granted to a candidate whose log is behind."""

    def step(self, message: Message, now_ms: int) -> None:
        if isinstance(message, VoteRequest) and message.epoch > 0:
            last_epoch = message.epoch if message.pre_vote else message.epoch - 1
            message = replace(message, last_epoch=last_epoch, last_offset=2**60)
        super().step(message, now_ms)


class CommitsOldEpochs(QuorumCore):
    """Records of an older epoch are committed by counting (Raft, figure 8)."""

    def become_leader(self, granting: tuple[int, ...], now_ms: int) -> None:
        super().become_leader(granting, now_ms)
        assert isinstance(self.role, Leader)
        self.role.epoch_start_offset = -1


class ForgetsVotes(QuorumCore):
    """The vote is not restored after a restart."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "hard_state": replace(given["hard_state"], voted=None, leader_id=-1)})


class AcknowledgesBeforeSync(QuorumCore):
    """A follower fetches on before it has synced."""

    @property
    def is_log_synced(self) -> bool:
        end_offset, self.synced_end_offset = self.synced_end_offset, self.log.end_offset
        try:
            return super().is_log_synced
        finally:
            self.synced_end_offset = end_offset


class CountsItsUnsyncedLog(QuorumCore):
    """The leader counts its own records before they are synced."""

    def appended(self, end_offset: int, now_ms: int, **given: Any) -> None:
        super().appended(end_offset, now_ms, **given)
        if self.is_leader:
            self.synced(end_offset, now_ms)


class LeadsOnAfterRestart(QuorumCore):
    """The leader of an epoch continues in it after a restart."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.leader_id == self.me.node_id:
            self.become_leader((), given["now_ms"])


class ChangesManyVotersAtOnce(QuorumCore):
    """A change of the voters starts before the one before it is committed, and before the epoch's first commit."""

    def step(self, message: Message, now_ms: int) -> None:
        if isinstance(self.role, Leader):
            self.role.changes._may_start = lambda request_id: self.outbox.append is None  # type: ignore[method-assign]
            self.role.changes._change = None
        super().step(message, now_ms)


class _TrustingRequests(RequestsInFlight):
    def forget_all(self) -> None:
        self._slots = {}

    def answered(self, request_id: int, now_ms: int, *, backoff: bool = False) -> Peer | None:
        key = self._key_of.get(request_id)
        if key is not None and key not in self._slots:
            del self._key_of[request_id]
            return Peer(key, "", 0) if isinstance(key, int) else None
        return super().answered(request_id, now_ms, backoff=backoff)


class TrustsLateAnswers(QuorumCore):
    """An answer counts although its request was given up."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        timeouts = self.timeouts
        self.in_flight = _TrustingRequests(
            timeout_ms=timeouts.request_ms, backoff_ms=timeouts.retry_backoff_ms
        )


class ForgetsToTruncate(QuorumCore):
    def truncate(self, end_offset: int) -> None:
        pass


class KeepsTruncatedVoters(QuorumCore):
    """After a truncation, voters of a record that is gone are still used."""

    def truncated(self, end_offset: int, now_ms: int) -> None:
        records = list(self.history._records)
        super().truncated(end_offset, now_ms)
        self.history._records = [entry for entry in records if entry[0] < end_offset] + [
            (end_offset - 1, entry[1]) for entry in records[-1:] if entry[0] >= end_offset
        ]


def find(bug: Callable[..., QuorumCore], seeds: range) -> tuple[int, str] | None:
    """The first seed that finds the bug, and how."""
    for seed in seeds:
        try:
            Simulation(seed, make_core=bug).run()
        except Exception as error:
            return seed, f"{type(error).__name__}: {error}"
    return None
