"""Reassigning partitions to other brokers, listing reassignments, and electing leaders."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results
from penstock.client.cluster import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that is being reassigned."""

    replicas: tuple[int, ...]
    """All present replicas, old and new ones."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class ElectionType(enum.IntEnum):
    """How `elect_leaders` chooses a leader."""

    PREFERRED = 0
    """Elect the preferred (first) replica, if it is in sync."""
    UNCLEAN = 1
    """Elect any live replica if none is in sync. Records that only the others have are lost."""


class ReassignmentAdmin(AdminCalls):
    async def reassign_partitions(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None]
        | Mapping[tuple[str, int], Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Start to move partitions to the given brokers, the preferred leader first; None cancels a reassignment.

        It returns when the move has started; `list_reassignments` lists the partitions that still move.
        """
        call = self._begin("reassign partitions", timeout)
        wanted = {TopicPartition(*partition): brokers for partition, brokers in replicas.items()}

        async def attempt(partitions: list[TopicPartition]) -> Results[TopicPartition, None]:
            request = wire.reassignment.alter_request(
                {partition: wanted[partition] for partition in partitions},
                timeout_ms=call.request_ms(),
                allow_factor_change=allow_replication_factor_change,
            )
            return wire.reassignment.read_altered(await call.ask_controller(request))

        return await call.run_each(wanted, attempt)

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The ongoing reassignments: of the given partitions, or all."""
        call = self._begin("list reassignments", timeout)
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]

        async def attempt() -> dict[TopicPartition, Reassignment]:
            request = wire.reassignment.list_request(wanted, timeout_ms=call.request_ms())
            return wire.reassignment.read_listed(await call.ask_controller(request))

        return await call.retry(attempt)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: ElectionType = ElectionType.PREFERRED,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Elect leaders of the given partitions, or wherever it is needed; returns the partitions with a new leader.

        If a given partition needs no election, its failure is `ElectionNotNeeded`.
        """
        call = self._begin("elect leaders", timeout)
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]

        async def attempt() -> Results[TopicPartition, None]:
            request = wire.reassignment.elect_request(wanted, election, timeout_ms=call.request_ms())
            return wire.reassignment.read_elected(
                await call.ask_controller(request), was_asked=wanted is not None
            )

        return call.split(await call.retry(attempt))
