"""Finding the leader: a replica without one fetches from other controllers in turn. Each answers with the epoch and the
leader that it knows. Observers find the leader in no other way; voters usually hear of it from the leader first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.messages import FetchRequest

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore

_KEY = "discovery"


class Discovery:
    def __init__(self, core: QuorumCore) -> None:
        self._core = core

    def ask(self, now_ms: int) -> None:
        """Ask the next controller, if no answer is pending."""
        core = self._core
        # A fetch acknowledges what is below its offset, even this one.
        if not core.is_log_synced or not core.in_flight.is_free(_KEY, now_ms):
            return
        peers = core.known_controllers()
        if not peers:
            core.in_flight.back_off(_KEY, now_ms)
            return
        peer = peers[core.next_discovery % len(peers)]
        core.next_discovery += 1
        request = FetchRequest(
            request_id=core.in_flight.start(_KEY, peer, now_ms),
            epoch=core.epoch,
            replica=core.me,
            fetch_offset=core.log.end_offset,
            last_fetched_epoch=core.log.last_epoch,
            high_watermark=core.high_watermark,
        )
        core.outbox.send(peer, request)

    def answered(self, now_ms: int) -> None:
        """The answer did not name a leader: ask the next one, but not at once."""
        self._core.in_flight.back_off(_KEY, now_ms)

    @property
    def next_tick_ms(self) -> int:
        return self._core.in_flight.free_at_ms(_KEY) if self._core.is_log_synced else NEVER_MS
