"""What all clients of transactions in one simulation share, and which answers mean what to them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.testing.producers import Weather
from penstock.testing.simulation import BrokenPromise, Simulation
from penstock.testing.transactions.history import History, Partition

ACCOUNTS, PAYMENTS, RECEIPTS = TOPICS = ("durable-accounts", "durable-payments", "durable-receipts")
"""Everybody writes to the first two; pipelines read the second and write the third."""

NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,  # the one before is being ended
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # the node is about to stop
    ErrorCode.NOT_ENOUGH_REPLICAS,  # so a produce is told that the coordinator could not be asked
)
"""It will be better later, and nothing was done."""
NOT_YET_PERHAPS_DONE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
"""Of these, the ones that a coordinator also gives that stops before its decision is committed."""
FENCED = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Fenced(Exception):
    """Somebody else has this transactional id now, or the coordinator has taken it away."""


class MustAbort(Exception):
    """The transaction can only be aborted."""


@dataclass(slots=True)
class Stage:
    simulation: Simulation
    history: History
    weather: Weather
    producer_ids: dict[int, str] = field(default_factory=dict)
    """Which transactional id has which."""

    markers: dict[tuple[Partition, int], tuple[int, int]] = field(default_factory=dict)
    """The epochs of producer and coordinator in the last marker that was seen, by partition and producer id."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """Whatever goes on by itself; it has to come to an end before all is quiet."""

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.simulation.loop.create_task(work, name=name)
        self.tasks.append(task)
        return task

    def look_after_tasks(self) -> None:
        """Raise what one of them complained about."""
        for task in [each for each in self.tasks if each.done()]:
            self.tasks.remove(task)
            if not task.cancelled():
                task.result()

    def producer_id_given(self, producer_id: int, transactional_id: str) -> None:
        owner = self.producer_ids.setdefault(producer_id, transactional_id)
        if owner != transactional_id:
            raise BrokenPromise(
                f"producer id {producer_id} is given to {transactional_id}, but belongs to {owner}"
            )

    def is_storage_ailing(self, error: ErrorCode) -> bool:
        return error == ErrorCode.KAFKA_STORAGE_ERROR and self.weather.is_disk_ailing()
