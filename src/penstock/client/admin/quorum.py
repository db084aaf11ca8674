"""The KRaft quorum of the cluster's metadata: leader, voters and observers; adding and removing voters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer, and how far it has replicated."""

    id: int
    directory_id: str | None
    """The id of the metadata log directory, as Kafka's tools show it; None if the broker does not say."""
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address of a controller."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumNode:
    """A controller with its endpoints."""

    id: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The KRaft quorum: leader, voters and observers."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: tuple[QuorumNode, ...] = ()


class QuorumAdmin(AdminCalls):
    async def describe_quorum(self, *, timeout: float | None = None) -> QuorumDescription:
        """Leader, voters and observers of the quorum."""
        call = self._begin("describe the quorum", timeout)

        async def attempt() -> QuorumDescription:
            return wire.quorum.read_described(await call.ask(wire.quorum.describe_request()))

        return await call.retry(attempt)

    async def add_voter(
        self,
        voter: int,
        directory_id: str,
        endpoints: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Make a controller a voter that has been an observer so far (KIP-853)."""
        call = self._begin(f"add voter {voter}", timeout)

        async def attempt() -> None:
            request = wire.quorum.add_request(
                voter, directory_id, endpoints, cluster_id=cluster_id, timeout_ms=call.request_ms()
            )
            wire.quorum.check_changed(await call.ask(request), voter)

        await call.retry(attempt)

    async def remove_voter(
        self, voter: int, directory_id: str, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        """Make a voter an observer."""
        call = self._begin(f"remove voter {voter}", timeout)

        async def attempt() -> None:
            request = wire.quorum.remove_request(voter, directory_id, cluster_id=cluster_id)
            wire.quorum.check_changed(await call.ask(request), voter)

        await call.retry(attempt)
