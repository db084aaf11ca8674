"""The decision log on a real broker, without Spark."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from penstock.client.admin.calls import Call
from penstock.client.admin.configs import ConfigResource
from penstock.client.prepared_transaction import PreparedTransaction, RecordPlace
from penstock.spark.sink import decisions
from penstock.spark.sink.decision import Claim, Decision, Ledger, TaskOutput
from penstock.spark.sink.transactions import SinkAdmin, SinkConnection
from penstock.testing import Broker

QUERY, RUN = "5c6fe1d6-7a8f-42ab-99e3-54c5e52eeb20", "e8241309-ea77-4f1d-b302-c0245a4dc16c"


def decision(batch: int, tasks: int, run: str = RUN) -> Decision:
    wrote = (
        TaskOutput(
            task,
            100,
            PreparedTransaction(
                f"penstock-{QUERY}-{run}-{task}", 10_000 + task, 3, RecordPlace("out", 0, 10**9)
            ),
        )
        for task in range(tasks)
    )
    return Decision(QUERY, run, batch, tuple(wrote))


def test_a_batch_of_ten_thousand_tasks_can_be_decided(penstock: Broker) -> None:
    wide = decision(1, 10_000)

    async def decide(admin: SinkAdmin) -> Ledger:
        await admin.read(Ledger(QUERY))
        await admin.append(Claim(QUERY, RUN, ""))
        return await admin.read(Ledger(QUERY), through=await admin.append(wide))

    with closing(SinkConnection({"bootstrap.servers": penstock.bootstrap_servers})) as connection:
        assert connection.run(decide).decision == wide


def test_a_log_read_in_many_fetches_means_the_same(penstock: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "FETCH_BYTES", 700)  # smaller than one decision

    async def decide(admin: SinkAdmin) -> Ledger:
        await admin.read(Ledger(QUERY))
        holder = ""
        for run in ("a", "b", "c"):
            await admin.append(Claim(QUERY, run, holder))
            holder = run
            for batch in range(4):
                await admin.append(decision(batch, 6, run))
        await admin.append(decision(9, 6, "a"))  # which does not count
        return await admin.read(Ledger(QUERY))

    with closing(SinkConnection({"bootstrap.servers": penstock.bootstrap_servers})) as connection:
        ledger = connection.run(decide)

    assert (ledger.holder, ledger.past_holders) == ("c", {"a", "b"})
    assert ledger.decision == decision(3, 6, "c")


def test_a_process_that_joins_a_run_reads_only_the_end_of_the_log(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "TAILS", (3, 12))
    asked: list[int] = []

    class Watched(SinkAdmin):
        async def _fetch(self, call: Call, position: int, *, max_bytes: int | None = None) -> Any:
            if max_bytes is None:
                asked.append(position)
            return await super()._fetch(call, position, max_bytes=max_bytes)

    async def look() -> tuple[Ledger, Ledger, Ledger]:
        async with Watched(penstock.bootstrap_servers) as admin:
            await admin.read(Ledger(QUERY))
            await admin.append(Claim(QUERY, RUN, ""))
            for batch in range(30):
                await admin.append(replace(decision(batch, 1), since=batch + 1))
            for _ in range(5):
                await admin.append(Claim("another", RUN, ""))
            asked.clear()
            joined = await admin.read(await admin.recall(QUERY, RUN))
            assert min(asked) > 20
            return joined, await admin.recall(QUERY, "new"), await admin.read(Ledger(QUERY))

    joined, new, whole = asyncio.run(look())

    assert (joined.holder, joined.decision, joined.position) == (whole.holder, whole.decision, whole.position)
    assert new == Ledger(QUERY)


@pytest.mark.parametrize(("replicas", "least"), [(1, 1), (2, 1), (3, 2)])
def test_with_three_replicas_an_acknowledged_entry_is_on_more_than_the_leader(
    replicas: int, least: int
) -> None:
    """The topic had no min.insync.replicas: a decision acknowledged by its leader alone could be lost with it."""
    assert decisions.min_insync_replicas(replicas) == least


def test_the_decision_topic_is_created_with_its_settings_and_keeps_existing_ones(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = ConfigResource.topic(decisions.TOPIC)

    async def setting() -> str | None:
        async with SinkAdmin(penstock.bootstrap_servers) as admin:
            await admin.read(Ledger(QUERY))
            described = await admin.describe_configs([resource], names=["min.insync.replicas"])
            return described[resource]["min.insync.replicas"].value

    monkeypatch.setattr(decisions, "min_insync_replicas", lambda replicas: replicas + 1)
    assert asyncio.run(setting()) == "2"

    penstock.admin().alter_config(resource, {"min.insync.replicas": "3"})

    assert asyncio.run(setting()) == "3"
