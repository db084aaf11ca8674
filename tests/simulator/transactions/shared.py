"""What all clients of transactions in one simulation share, and how they classify errors."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from penstock.protocol.errors import ErrorCode
from simulator.clients.producers import Conditions
from simulator.simulation import BrokenPromise, Simulation
from simulator.transactions.history import History, Partition

ACCOUNTS, PAYMENTS, RECEIPTS = TOPICS = ("durable-accounts", "durable-payments", "durable-receipts")
"""All writers use the first two; pipelines read the second and write the third."""

RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,  # the previous transaction is being ended
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # the node is about to stop
    ErrorCode.NOT_ENOUGH_REPLICAS,  # the partition's leader could not reach the coordinator
)
"""Temporary errors; the request was not executed."""
RETRIABLE_WITH_UNKNOWN_OUTCOME = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
"""Those of them that a coordinator also returns when it stops before its decision is committed."""
FENCED = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Fenced(Exception):
    """Another producer has this transactional id now, or the coordinator has fenced it."""


class MustAbort(Exception):
    """The transaction can only be aborted."""


@dataclass(slots=True)
class SharedState:
    simulation: Simulation
    history: History
    conditions: Conditions
    producer_ids: dict[int, str] = field(default_factory=dict)
    """The transactional id of each producer id."""

    markers: dict[tuple[Partition, int], tuple[int, int]] = field(default_factory=dict)
    """The epochs of producer and coordinator in the last marker seen, by partition and producer id."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """Background tasks. All of them have to end before the audit."""

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.simulation.loop.create_task(work, name=name)
        self.tasks.append(task)
        return task

    def raise_task_errors(self) -> None:
        """Raise the errors of tasks."""
        for task in [each for each in self.tasks if each.done()]:
            self.tasks.remove(task)
            if not task.cancelled():
                task.result()

    def producer_id_given(self, producer_id: int, transactional_id: str) -> None:
        owner = self.producer_ids.setdefault(producer_id, transactional_id)
        if owner != transactional_id:
            raise BrokenPromise(
                f"producer id {producer_id} was assigned to {transactional_id}, but belongs to {owner}"
            )

    def is_storage_degraded(self, error: ErrorCode) -> bool:
        return error == ErrorCode.KAFKA_STORAGE_ERROR and self.conditions.is_disk_degraded()
