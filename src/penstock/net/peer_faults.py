"""What peers do wrong, in the log, without letting them fill it.

A health check that speaks HTTP to the Kafka port, or a client that was set up for TLS, comes back every few seconds for
days. Each host gets one line for each kind of fault in a window, and a few lines in all; the rest is counted and told
with the first line of the next window.
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

WINDOW_S = 60.0
LINES_PER_HOST_MAX = 10  # in a window: a peer that makes a new mistake each time must not fill the log either
HOSTS_MAX = 1000  # tracked; beyond this the oldest is dropped


class _Host:
    __slots__ = ("ends", "faults", "suppressed")

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.faults: set[str] = set()
        self.suppressed = 0


class PeerFaults:
    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    def report(self, peer: str, host: str, fault: str, *, now: float) -> None:
        """Log why the connection of `peer` ends, unless the same was logged for its host in this window."""
        known = self._hosts.get(host)
        suppressed = 0
        if known is None or now >= known.ends:
            suppressed = 0 if known is None else known.suppressed
            self._hosts.pop(host, None)  # so that it stands last, as the newest
            while len(self._hosts) >= HOSTS_MAX:
                del self._hosts[next(iter(self._hosts))]
            known = self._hosts[host] = _Host(now + WINDOW_S)
        if fault in known.faults or len(known.faults) >= LINES_PER_HOST_MAX:
            known.suppressed += 1
            return
        known.faults.add(fault)
        more = f" ({suppressed} more of {host} were not logged)" if suppressed else ""
        logger.warning("closing the connection of %s: %s%s", peer, fault, more)
