"""Rate-limited log lines about faulty peers.

An HTTP health check on the Kafka port, or a client configured for TLS, reconnects every few seconds for days. Each host
gets one line per kind of fault in a window, and a limited number of lines in all. The others are counted, and the first
line of the next window reports the count.
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

WINDOW_S = 60.0
LINES_PER_HOST_MAX = 10  # in a window, also for a peer with a new fault each time
HOSTS_MAX = 1000  # tracked; then the oldest is dropped


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
        """Log why the connection of `peer` is closed, unless the same was logged for its host in this window."""
        known = self._hosts.get(host)
        suppressed = 0
        if known is None or now >= known.ends:
            suppressed = 0 if known is None else known.suppressed
            self._hosts.pop(host, None)  # the newest comes last
            while len(self._hosts) >= HOSTS_MAX:
                del self._hosts[next(iter(self._hosts))]
            known = self._hosts[host] = _Host(now + WINDOW_S)
        if fault in known.faults or len(known.faults) >= LINES_PER_HOST_MAX:
            known.suppressed += 1
            return
        known.faults.add(fault)
        more = f" ({suppressed} similar lines about {host} were suppressed)" if suppressed else ""
        logger.warning("closing the connection from %s: %s%s", peer, fault, more)
