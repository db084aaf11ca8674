"""The settings of the quorum, in the units and types that it uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.config.broker import BrokerSettings
from penstock.quorum.ready import QuorumTimeouts
from penstock.quorum.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, Voters

DEFAULT_TIMEOUTS = QuorumTimeouts()
DEFAULT_LISTENER = "CONTROLLER"  # of a node without `controller.listener.names`


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """The settings of a node that concern the quorum."""

    timeouts: QuorumTimeouts = DEFAULT_TIMEOUTS
    static_voters: Voters = field(default_factory=lambda: NO_VOTERS)
    """`controller.quorum.voters`."""
    bootstrap: tuple[tuple[str, int], ...] = ()
    """`controller.quorum.bootstrap.servers`, as host and port."""
    listener: str = DEFAULT_LISTENER
    """The listener through which controllers are reached: the first of `controller.listener.names`."""
    fetch_bytes_max: int = 1 << 20
    snapshot_fetch_bytes_max: int = 1 << 20
    snapshot_after_bytes: int = 20 << 20
    snapshot_after_ms: int = 3_600_000
    """0: only by size."""
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 24 * 3_600_000

    @classmethod
    def read(cls, settings: BrokerSettings) -> QuorumSettings:
        listener = next(iter(settings.controller_listener_names), DEFAULT_LISTENER)
        return cls(
            timeouts=QuorumTimeouts(
                election_ms=settings.get("controller.quorum.election.timeout.ms"),
                election_backoff_max_ms=settings.get("controller.quorum.election.backoff.max.ms"),
                fetch_ms=settings.get("controller.quorum.fetch.timeout.ms"),
                request_ms=settings.get("controller.quorum.request.timeout.ms"),
                retry_backoff_ms=settings.get("controller.quorum.retry.backoff.ms"),
            ),
            static_voters=read_static_voters(settings.get("controller.quorum.voters"), listener),
            bootstrap=tuple(map(_split, settings.get("controller.quorum.bootstrap.servers"))),
            listener=listener,
            fetch_bytes_max=settings.get("controller.quorum.fetch.max.bytes"),
            snapshot_fetch_bytes_max=settings.get("controller.quorum.fetch.snapshot.max.bytes"),
            snapshot_after_bytes=settings.get("metadata.log.max.record.bytes.between.snapshots"),
            snapshot_after_ms=settings.get("metadata.log.max.snapshot.interval.ms"),
            retention_bytes=settings.get("metadata.max.retention.bytes"),
            retention_ms=settings.get("metadata.max.retention.ms"),
        )


def read_static_voters(texts: tuple[str, ...], listener: str) -> Voters:
    """`id@host:port`, without directory ids."""
    voters = []
    for text in texts:
        node_id, _, address = text.partition("@")
        host, port = _split(address)
        voters.append(Voter(ReplicaKey(int(node_id)), (VoterEndpoint(listener, host, port),)))
    return Voters(voters)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)
