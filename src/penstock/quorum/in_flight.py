"""Requests in flight: at most one of a kind to each node, with a timeout, and a backoff after a failure.

A response counts only if its request is still in flight. Changing the role forgets all requests, so that an answer to
an earlier epoch cannot be taken for one to this epoch.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from penstock.quorum.messages import Peer

NEVER_MS = 2**62


@dataclass(slots=True)
class _Slot:
    """The request to one peer, or the time until the next."""

    peer: Peer | None = None
    request_id: int = -1
    free_at_ms: int = 0
    """In flight: when the request times out. Otherwise: when the next one may be sent."""


class RequestsInFlight:
    def __init__(self, *, timeout_ms: int, backoff_ms: int, first_id: int = 1) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._next_id = first_id
        self._slots: dict[Hashable, _Slot] = {}
        self._key_of: dict[int, Hashable] = {}

    def is_free(self, key: Hashable, now_ms: int) -> bool:
        """Whether a request may be sent now. A request that timed out is forgotten."""
        slot = self._slots.get(key)
        if slot is None:
            return True
        if slot.free_at_ms > now_ms:
            return False
        if slot.request_id >= 0:
            del self._key_of[slot.request_id]
            slot.request_id = -1
        return True

    def start(self, key: Hashable, peer: Peer, now_ms: int) -> int:
        """The id of a new request."""
        request_id = self._next_id
        self._next_id += 1
        self._slots[key] = _Slot(peer, request_id, now_ms + self._timeout_ms)
        self._key_of[request_id] = key
        return request_id

    def answered(self, request_id: int, now_ms: int, *, backoff: bool = False) -> Peer | None:
        """The node that answered, or None if no such request is in flight."""
        key = self._key_of.pop(request_id, None)
        if key is None:
            return None
        slot = self._slots[key]
        slot.request_id = -1
        slot.free_at_ms = now_ms + self._backoff_ms if backoff else 0
        return slot.peer

    def back_off(self, key: Hashable, now_ms: int) -> None:
        """The answer was not helpful: do not ask again at once."""
        self.hold(key, now_ms + self._backoff_ms)

    def hold(self, key: Hashable, until_ms: int) -> None:
        """Do not ask again before."""
        slot = self._slots.setdefault(key, _Slot())
        if slot.request_id < 0:
            slot.free_at_ms = until_ms

    def free_at_ms(self, key: Hashable) -> int:
        """When the next request may be sent; in the past if that is now."""
        slot = self._slots.get(key)
        return 0 if slot is None else slot.free_at_ms

    def forget_all(self) -> None:
        self._slots.clear()
        self._key_of.clear()
