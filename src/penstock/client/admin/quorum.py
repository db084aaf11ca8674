"""The quorum that keeps the cluster's metadata: who leads, who votes, who follows; adding and removing voters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    id: int
    directory_id: str | None
    """Of the log directory that holds the metadata, in Kafka's own spelling; None where the broker does not tell."""
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a controller is reached."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumNode:
    id: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: tuple[QuorumNode, ...] = ()


class QuorumAdmin(AdminCalls):
    async def describe_quorum(self, *, timeout: float | None = None) -> QuorumDescription:
        call = self._begin("describe the quorum", timeout)

        async def attempt() -> QuorumDescription:
            return wire.quorum.read_described(await call.ask(wire.quorum.describe_request()))

        return await call.repeat(attempt)

    async def add_voter(
        self,
        voter: int,
        directory_id: str,
        endpoints: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Let a controller vote that has been following so far (KIP-853)."""
        call = self._begin(f"add voter {voter}", timeout)

        async def attempt() -> None:
            request = wire.quorum.add_request(
                voter, directory_id, endpoints, cluster_id=cluster_id, timeout_ms=call.request_ms()
            )
            wire.quorum.check_changed(await call.ask(request), voter)

        await call.repeat(attempt)

    async def remove_voter(
        self, voter: int, directory_id: str, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        """Take the vote from a controller; it goes on following."""
        call = self._begin(f"remove voter {voter}", timeout)

        async def attempt() -> None:
            request = wire.quorum.remove_request(voter, directory_id, cluster_id=cluster_id)
            wire.quorum.check_changed(await call.ask(request), voter)

        await call.repeat(attempt)
