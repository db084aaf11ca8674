"""The protocol of the Spark sink on a real broker, step by step and without Spark: what a crash between steps
leaves.

Also with `--broker=kafka`, where prepared transactions have a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from harness.brokers import Broker
from penstock import Admin, Consumer
from penstock.admin import ConfigResource
from penstock.spark.sink import protocol
from penstock.spark.sink.decision import SinkStopped, Superseded, TaskAttempt, TaskResult
from penstock.spark.sink.decisions import TOPIC
from penstock.spark.sink.transactions import SinkAdmin, SinkConnection, connection_of
from penstock.spark.sink.writer import RowWriter

PREFIX = "penstock"
SETTINGS = {"transaction.two.phase.commit.enable": "true", "transaction.state.log.num.partitions": "1"}


class Sink:
    """One run of a query: its worker process, and its driver."""

    def __init__(self, broker: Broker, run: str, query: str = "q", *, prefix: str = PREFIX) -> None:
        self.settings = {"bootstrap.servers": broker.bootstrap}
        self.rows = RowWriter(self.settings, "out", ("value",), prefix)
        self.run, self.query, self.prefix = run, query, prefix

    def write(self, batch: int, *tasks: Sequence[str], attempt: int = 0) -> list[TaskResult]:
        return [
            self.task(TaskAttempt(self.query, self.run, batch, k, attempt), rows)
            for k, rows in enumerate(tasks)
        ]

    def task(self, task_attempt: TaskAttempt, rows: Sequence[str]) -> TaskResult:
        connection = SinkConnection(self.settings)
        try:
            assignment = connection.assign(task_attempt, prefix=self.prefix)
            if assignment.is_written:
                return assignment.result(None, len(rows))
            batches = iter([pa.RecordBatch.from_pydict({"value": [row.encode() for row in rows]})])
            prepared = self.rows.write_transaction(
                batches, task_attempt.transactional_id(self.prefix), connection, is_two_phase=True
            )
            return connection.run(lambda admin: protocol.hand_over(admin, assignment, *prepared))
        finally:
            connection.close()

    def commit(self, done: Sequence[TaskResult], batch: int) -> None:
        with connection_of(self.settings) as connection:
            connection.run(lambda admin: protocol.commit(admin, done, batch, prefix=self.prefix))

    def decide(self, done: Sequence[TaskResult], batch: int, *, ended: int) -> None:
        """A commit that dies after the decision and so many ended transactions."""

        class Dying(SinkAdmin):
            async def complete(self, transactions: Sequence[object], *, commit: bool) -> list[bool]:
                await super().complete(transactions[:ended], commit=commit)  # type: ignore[arg-type]
                raise KeyboardInterrupt

        async def die() -> None:
            async with Dying(self.settings["bootstrap.servers"]) as admin:
                await protocol.commit(admin, done, batch, prefix=self.prefix)

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(die())

    def abort(self, done: Sequence[TaskResult], batch: int) -> None:
        with connection_of(self.settings) as connection:
            connection.run(lambda admin: protocol.abort(admin, done, batch, prefix=self.prefix))

    def retire(self) -> None:
        with connection_of(self.settings) as connection:
            connection.run(lambda admin: protocol.retire(admin, self.query, self.run, prefix=self.prefix))


@pytest.fixture
def broker(tmp_path: Path, make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    broker = make_broker(tmp_path / "broker", settings=SETTINGS)
    broker.start()
    with Admin(broker.bootstrap) as admin:
        admin.create_topic("out", partitions=1)
    yield broker
    broker.close()


def committed(broker: Broker) -> list[str]:
    with Consumer("out", bootstrap_servers=broker.bootstrap, isolation_level="read_committed") as consumer:
        return sorted(message.value.decode() for message in consumer.read(until="end").to_messages())


def open_ids(broker: Broker) -> list[str]:
    with Admin(broker.bootstrap) as admin:
        return [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]


def test_nothing_is_visible_before_the_commit_and_everything_after_it(broker: Broker) -> None:
    sink = Sink(broker, "run")
    done = sink.write(0, ["a", "b"], [], ["c"])
    assert committed(broker) == []
    assert open_ids(broker) == ["penstock-q-run-0", "penstock-q-run-2"]

    sink.commit(done, 0)

    assert committed(broker) == ["a", "b", "c"]
    assert open_ids(broker) == []


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_the_next_run_completes_a_batch_whose_driver_died_after_the_decision(
    broker: Broker, ended: int
) -> None:
    sink = Sink(broker, "first")
    sink.decide(sink.write(7, ["a"], ["b"]), 7, ended=ended)

    again = Sink(broker, "second")
    done = again.write(7, ["a", "b"])  # in one task now
    again.commit(done, 7)

    assert committed(broker) == ["a", "b"]
    assert open_ids(broker) == []


def test_a_driver_that_dies_before_the_decision_leaves_nothing(broker: Broker) -> None:
    Sink(broker, "first").write(0, ["a"], ["b"], ["c"], ["d"])

    again = Sink(broker, "second")
    again.commit(again.write(0, ["a", "b", "c", "d"]), 0)

    assert committed(broker) == ["a", "b", "c", "d"]
    assert open_ids(broker) == []


def test_a_replaced_driver_cannot_commit(broker: Broker) -> None:
    old, new = Sink(broker, "old"), Sink(broker, "new")
    late = old.write(0, ["a"])
    done = new.write(0, ["a"])

    with pytest.raises(Superseded, match="new"):
        old.commit(late, 0)
    old.abort(late, 0)
    with pytest.raises(SinkStopped, match="failed or was stopped"):
        old.write(1, ["b"])
    new.commit(done, 0)

    assert committed(broker) == ["a"]
    assert open_ids(broker) == []


def test_open_transactions_of_failed_attempts_end_with_the_batch(broker: Broker) -> None:
    sink = Sink(broker, "run")
    sink.commit(sink.write(0, ["a"]), 0)
    sink.write(1, ["b"])  # its message is lost

    sink.commit(sink.write(1, ["b"], attempt=1), 1)

    assert committed(broker) == ["a", "b"]
    assert open_ids(broker) == []


def test_a_repeated_stage_does_not_abort_what_its_first_attempt_has_prepared(broker: Broker) -> None:
    sink = Sink(broker, "run")
    first = sink.write(0, ["a"])
    sink.write(0, ["a"])  # apparently the same task and attempt; its message comes too late

    sink.commit(first, 0)

    assert committed(broker) == ["a"]
    assert open_ids(broker) == []


def test_an_abort_ends_only_undecided_transactions(broker: Broker) -> None:
    sink = Sink(broker, "run")
    decided = sink.write(0, ["a"])
    sink.decide(decided, 0, ended=0)
    sink.abort(decided, 0)
    assert open_ids(broker) == ["penstock-q-run-0"]

    next_run = Sink(broker, "next")
    next_run.commit(next_run.write(0, ["a"]), 0)
    next_run.abort(next_run.write(1, ["b"]), 1)

    assert committed(broker) == ["a"]
    assert open_ids(broker) == []


def test_a_retired_run_leaves_nothing_open_and_its_last_decision_stays(broker: Broker) -> None:
    sink = Sink(broker, "run")
    sink.decide(sink.write(0, ["a"], ["b"]), 0, ended=1)
    sink.task(
        TaskAttempt("q", "run", 1, 0), ["never"]
    )  # a batch that continues; the first id is already free

    sink.retire()

    assert open_ids(broker) == []
    assert committed(broker) == ["a", "b"]
    with pytest.raises(SinkStopped, match="failed or was stopped"):
        sink.write(1, ["late"])
    sink.retire()  # again, for a late task
    again = Sink(broker, "again")
    again.commit(again.write(1, ["c"]), 1)
    sink.retire()
    assert committed(broker) == ["a", "b", "c"]
    assert open_ids(broker) == []


def test_transactions_opened_under_another_prefix_are_ended_too(broker: Broker) -> None:
    """They stayed open forever, and hid all later records."""
    Sink(broker, "first", prefix="before").write(0, ["a"])
    assert open_ids(broker) == ["before-q-first-0"]

    again = Sink(broker, "second", prefix="after")
    again.commit(again.write(0, ["a"]), 0)

    assert open_ids(broker) == []
    assert committed(broker) == ["a"]


def test_a_checkpoint_older_than_the_output_is_rejected(broker: Broker) -> None:
    sink = Sink(broker, "run")
    sink.commit(sink.write(5, ["a"]), 5)

    with pytest.raises(SinkStopped, match=r"batch 4, but batch 5 was already written"):
        Sink(broker, "restored").write(4, ["z"])


def test_sinks_of_one_cluster_do_not_disturb_each_other(broker: Broker) -> None:
    one, other = Sink(broker, "run", "one"), Sink(broker, "run", "other")
    of_one, of_other = one.write(3, ["a"]), other.write(0, ["b"])

    one.commit(of_one, 3)
    other.commit(of_other, 0)

    assert committed(broker) == ["a", "b"]


def test_killing_and_restarting_the_broker_changes_nothing(broker: Broker) -> None:
    sink = Sink(broker, "run")
    done = sink.write(0, ["a"], ["b"])
    broker.kill()
    broker.start()
    sink.decide(done, 0, ended=1)
    broker.kill()
    broker.start()

    again = Sink(broker, "again")
    again.commit(again.write(0, ["a"], ["b"]), 0)

    assert committed(broker) == ["a", "b"]
    assert open_ids(broker) == []


def test_a_transaction_that_timed_out_after_the_decision_is_written_again(broker: Broker) -> None:
    sink = Sink(broker, "run")
    done = sink.write(0, ["a"], ["b"])
    sink.decide(done, 0, ended=1)
    with Admin(broker.bootstrap) as admin:
        admin.terminate_transaction("penstock-q-run-1")  # as its timeout does

    again = Sink(broker, "again")
    with pytest.raises(SinkStopped, match=r"1 rows .* the rerun has 2 rows"):
        again.write(0, ["a"], ["b", "x"])
    again.commit(again.write(0, ["a"], ["b"]), 0)

    assert committed(broker) == ["a", "b"]
    assert open_ids(broker) == []


def test_a_transaction_that_timed_out_before_the_commit_stops_the_query_and_a_restart_fixes_it(
    broker: Broker,
) -> None:
    sink = Sink(broker, "run")
    done = sink.write(0, ["a"], ["b"])
    with Admin(broker.bootstrap) as admin:
        admin.terminate_transaction("penstock-q-run-1")

    with pytest.raises(SinkStopped, match=r"penstock-q-run-1 .*Start the query again"):
        sink.commit(done, 0)
    sink.abort(done, 0)
    again = Sink(broker, "again")
    again.commit(again.write(0, ["a"], ["b"]), 0)

    assert committed(broker) == ["a", "b"]


def test_the_decision_log_is_compacted_and_has_one_partition(broker: Broker) -> None:
    sink = Sink(broker, "run")
    sink.commit(sink.write(0, ["a"]), 0)

    with Admin(broker.bootstrap) as admin:
        assert len(admin.describe_topic(TOPIC).partitions) == 1
        assert admin.describe_config(ConfigResource.topic(TOPIC))["cleanup.policy"].value == "compact"
