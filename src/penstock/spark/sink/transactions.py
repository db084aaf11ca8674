"""A sink's way to its cluster: the log of decisions, the ends of transactions, and producers for tasks.

`SinkAdmin` is the port of `protocol`. It lives on a thread of its own and is kept, with what it has read of the log,
for the next task of the process, or the next commit: Spark keeps a process for commits as well, and makes only the
writer anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client import errors
from penstock.client.admin.aio import Admin
from penstock.client.admin.configs import ConfigResource
from penstock.client.admin.transactions import TransactionState
from penstock.client.background import Background
from penstock.client.cluster_client import CoordinatorKind
from penstock.client.producer.prepared import PreparedTransaction
from penstock.client.producer.sync import Producer
from penstock.client.settings import AdminSettings, ProducerSettings
from penstock.spark.clients import POOL, known
from penstock.spark.sink.decision import Ledger, Place, ids_of
from penstock.spark.sink.decisions import PATIENCE_S, DecisionsAdmin
from penstock.spark.sink.protocol import Assignment, assign

T = TypeVar("T")

Settings = Mapping[str, object]

PATIENCE_MS = (
    180_000  # what a sink's producers have in place of a minute, so that a broker may be away for that long
)
LEDGERS_MAX = 100  # every batch write is a sink of its own; one that is forgotten is read again from the log
TIMEOUT = "transaction.timeout.ms"
TWO_PHASE = "transaction.two.phase.commit.enable"


class SinkAdmin(DecisionsAdmin, Admin):
    """An Admin that can do what a sink asks for."""

    async def complete(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[bool]:
        ids = [each.transactional_id for each in transactions if not each.is_empty]
        if ids:  # all at once, where one by one each would ask for its own coordinator
            deadline_ms = self._client.deadline(round(PATIENCE_S * 1000))
            await self._client.coordinators(CoordinatorKind.TRANSACTION, ids, deadline_ms=deadline_ms)
        return await asyncio.gather(*(self._complete(each, commit=commit) for each in transactions))

    async def _complete(self, transaction: PreparedTransaction, *, commit: bool) -> bool:
        try:
            await self.complete_transaction(transaction, commit=commit, timeout=PATIENCE_S)
        except (errors.TransactionNotCommitted, errors.TransactionNotAborted):
            return False
        return True

    async def open_ids(self, sink: str, prefixes: Collection[str]) -> list[str]:
        listed = await self.list_transactions(states=[TransactionState.ONGOING], timeout=PATIENCE_S)
        begins = tuple(ids_of(prefix, sink) for prefix in prefixes)
        return [each.transactional_id for each in listed if each.transactional_id.startswith(begins)]

    async def fence(self, transactional_id: str) -> None:
        await self.fence_producer(transactional_id, timeout=PATIENCE_S)

    async def is_open(self, transactional_id: str) -> bool:
        try:
            told = await self.describe_transaction(transactional_id, timeout=PATIENCE_S)
        except errors.TransactionalIdNotFound:
            return False
        return told.state is TransactionState.ONGOING

    async def longest_timeout_ms(self) -> str:
        """How long the brokers let a transaction be open that is not of two phases."""
        cluster = await self.describe_cluster(timeout=PATIENCE_S)
        broker = ConfigResource.broker(cluster.brokers[0].id)
        described = await self.describe_configs(
            [broker], names=["transaction.max.timeout.ms"], timeout=PATIENCE_S
        )
        return str(described[broker]["transaction.max.timeout.ms"].value)


class SinkConnection:
    """What a worker process keeps of one cluster between tasks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = dict(settings)
        self._background = Background("penstock-sink")
        self._admin = SinkAdmin.of(admin_settings(settings))
        self._ledgers: dict[str, Ledger] = {}
        self._has_two_phases = True
        """Until the broker says otherwise."""
        self._longest_ms: str | None = None

    def run(self, work: Callable[[SinkAdmin], Coroutine[Any, Any, T]]) -> T:
        return self._background.call(lambda: work(self._admin))

    def assign(self, place: Place, *, prefix: str) -> Assignment:
        ledger = self._ledgers.get(place.sink)
        assignment = self.run(lambda admin: assign(admin, ledger, place, prefix=prefix))
        self._ledgers[place.sink] = assignment.ledger
        if len(self._ledgers) > LEDGERS_MAX:
            del self._ledgers[next(iter(self._ledgers))]
        return assignment

    def begin(self, transactional_id: str, *, is_two_phase: bool) -> Producer:
        """A producer in a transaction that may stay open: without limit, where the broker leaves its end to others and
        somebody is sure to come; else for as long as the broker allows.

        Where the id has an open transaction, it gets another one. When Spark repeats a stage, a task of the first try
        may still run or have prepared what will count, and nothing tells the two apart."""
        if self.run(lambda admin: admin.is_open(transactional_id)):
            transactional_id = f"{transactional_id}.{uuid.uuid4().hex[:8]}"
        if TIMEOUT in self._settings:
            return self._begin(transactional_id, {})
        if is_two_phase and self._has_two_phases:
            try:
                return self._begin(transactional_id, {TWO_PHASE: "true"})
            except errors.TwoPhaseCommitUnavailable:
                self._has_two_phases = False
        if self._longest_ms is None:
            self._longest_ms = self.run(SinkAdmin.longest_timeout_ms)
        return self._begin(transactional_id, {TIMEOUT: self._longest_ms})

    def _begin(self, transactional_id: str, settings: Settings) -> Producer:
        own = patient(self._settings) | {"transactional.id": transactional_id}
        producer = Producer(settings=own | dict(settings))
        try:
            producer.begin()
        except BaseException:
            producer.close()
            raise
        return producer

    def close(self) -> None:
        if self._background.is_running and not self._background.is_left_behind:
            self._background.call(self._admin.close)
        self._background.close()


def connection_of(settings: Settings) -> contextlib.AbstractContextManager[SinkConnection]:
    """That of this process to a cluster, kept between tasks as clients are."""
    return POOL.lend("sink", settings, lambda: SinkConnection(settings))


def patient(settings: Settings) -> dict[str, object]:
    """Those of a sink's producer. What was said stays; what follows from it may need even longer."""
    own = known(settings, ProducerSettings)
    least_ms = ProducerSettings.of(settings=own).get("delivery.timeout.ms")
    delivery_ms = max(PATIENCE_MS, least_ms)
    return {"max.block.ms": str(PATIENCE_MS), "delivery.timeout.ms": str(delivery_ms), **own}


def admin_settings(settings: Settings) -> AdminSettings:
    return AdminSettings.of(None, known(settings, AdminSettings), {})
