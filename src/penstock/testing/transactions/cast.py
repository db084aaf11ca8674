"""The transactions of one seed: who acts in them, and the node's settings for it."""

from __future__ import annotations

import asyncio
import random
from functools import partial

from penstock.testing.producers import Weather
from penstock.testing.simulation import BrokenPromise, End, Simulation
from penstock.testing.transactions.actor import Actor
from penstock.testing.transactions.auditor import TransactionAuditor
from penstock.testing.transactions.history import History, Outcome, Partition
from penstock.testing.transactions.performer import TIMEOUTS_MS
from penstock.testing.transactions.pipeline import Pipeline
from penstock.testing.transactions.reader import CommittedReader, UncommittedReader
from penstock.testing.transactions.stage import PAYMENTS, Stage
from penstock.testing.transactions.two_phase import TwoPhaseActor
from penstock.testing.transactions.writer import Writer

GROUP = "movers"
PIPELINES = 2
PREPARED_WAITS_S = 3 * max(TIMEOUTS_MS) / 1000  # longer than anything that is not prepared


def draw_transaction_settings(rng: random.Random) -> dict[str, str]:
    """Everything a hundred times faster than in life. What is not flushed would not be there after a power cut, and
    with it the end of a transaction in one partition and not in another: so everything is."""
    return {
        "log.flush.interval.messages": "1",
        "transaction.state.log.num.partitions": rng.choice(("1", "3")),
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice(("50", "200", "500")),
        "transaction.two.phase.commit.enable": "true",
        "offsets.topic.num.partitions": rng.choice(("1", "3")),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.compression.codec": rng.choice(("0", "0", "1", "4")),
    }


class Company:
    """All clients of transactions of one simulation."""

    def __init__(self, simulation: Simulation, weather: Weather) -> None:
        self.stage = Stage(simulation, History(), weather)
        rng = simulation.generator("transactions")
        sources: list[Partition] = [(PAYMENTS, index) for index in range(PIPELINES)]
        self._groups = [(GROUP, source) for source in sources]
        self._actors = [Actor(self.stage, f"writer-{number}", Writer) for number in range(rng.randint(1, 3))]
        self._actors += [
            Actor(self.stage, f"pipeline-{source[1]}", partial(Pipeline, source=source, group_id=GROUP))
            for source in sources
        ]
        self._prudent = TwoPhaseActor(self.stage, "two-phase")
        self._readers = [
            CommittedReader(self.stage, "committed-1"),
            CommittedReader(self.stage, "committed-2"),
            UncommittedReader(self.stage, "uncommitted"),
        ]
        self._auditor = TransactionAuditor(self.stage, "transaction-auditor")
        self._skew_ms_max = 0

    @property
    def performers(self) -> list[Actor | CommittedReader | UncommittedReader]:
        """All that have to be run."""
        return [*self._actors, self._prudent, *self._readers]

    def node_ended(self, _: End) -> None:
        self._skew_ms_max = max(self._skew_ms_max, self.stage.simulation.clock.skew_ms)

    async def finish(self) -> None:
        """When nothing goes wrong any more: wait until what was left open is ended."""
        await self._wait_for_tasks()
        prudent = self._prudent.identity.transactional_id
        await self._auditor.wait_until_ended(within_s=self._patience_s, but=[prudent])
        if self._prudent.vault.prepared is not None and not self._prudent.vault.prepared.is_end_asked:
            await asyncio.sleep(PREPARED_WAITS_S)
            if not await self._auditor.is_open(prudent):
                raise BrokenPromise(f"{prudent} had prepared a transaction, and it is open no more")
        self._prudent.finish()
        await self._wait_for_tasks()
        await self._auditor.wait_until_ended(within_s=self._patience_s)

    async def audit(self) -> None:
        await self._auditor.audit(self._groups)

    def committed_count(self) -> int:
        return self.stage.history.count(Outcome.COMMITTED)

    @property
    def _patience_s(self) -> float:
        """So long the coordinator may take to end what nobody ends. Its clock may have been set back meanwhile."""
        behind_ms = self._skew_ms_max - self.stage.simulation.clock.skew_ms
        return (max(TIMEOUTS_MS) + behind_ms) / 1000 + 2 + 4 * self.stage.simulation.settle_s

    async def _wait_for_tasks(self) -> None:
        while self.stage.tasks:
            await asyncio.sleep(0.1)
            self.stage.look_after_tasks()
