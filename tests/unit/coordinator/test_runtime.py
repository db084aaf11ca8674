"""The runtime, with a shard that counts and a log that commits on demand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from harness.coordinator_log import ListLog
from penstock.coordinator.result import DONE, CoordinatorRecord, CoordinatorResult, DeferredResponse
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.serde import RecordSerde
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.timeline import TimelineMap
from penstock.metadata.errors import Refused
from penstock.protocol.declare import record
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32
from penstock.records import kernel
from simulator.loop import VirtualLoop, run_virtual


@record(key=7, versions=(0, 0))
class CountKey:
    name: str


@record(key=7, versions=(0, 1), flexible=1)
class CountValue:
    count: Int32


class CountShard:
    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.counts: TimelineMap[str, int] = TimelineMap(context.timeline)
        self.waiting: list[DeferredResponse[str]] = []
        self.events: list[str] = []

    def replay(self, key: CountKey, value: CountValue | None) -> None:
        if value is None:
            self.counts.pop(key.name, None)
        else:
            self.counts[key.name] = value.count

    def loaded(self) -> None:
        self.events.append("loaded")

    def unloaded(self) -> None:
        self.events.append("unloaded")
        for answer in self.waiting:
            answer.complete("gone")

    def add(self, name: str) -> CoordinatorResult[int]:
        count = self.counts.get(name, 0) + 1
        return CoordinatorResult(count, [CoordinatorRecord(CountKey(name=name), CountValue(count=count))])


def make_runtime(
    log: ListLog, make_shard: Callable[[ShardContext], CountShard] = CountShard
) -> CoordinatorRuntime[CountShard]:
    return CoordinatorRuntime(
        topic="__counts",
        log=log,
        make_framing=lambda: RecordSerde([(CountKey, CountValue)]),
        make_shard=make_shard,
        wall_ms=lambda: 1_700_000_000_000,
    )


Scenario = Callable[[CoordinatorRuntime[CountShard], ListLog], Any]


def play(scenario: Scenario) -> None:
    async def main() -> None:
        log = ListLog()
        runtime = make_runtime(log)
        await scenario(runtime, log)
        await runtime.close()

    run_virtual(VirtualLoop(), main())


def shard_of(runtime: CoordinatorRuntime[CountShard]) -> CountShard:
    return runtime.read(0, lambda shard: shard)


def test_a_write_that_is_committed_at_once_is_answered_without_a_future() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)

        assert runtime.write(0, lambda shard: shard.add("a")) == 1
        assert runtime.write(0, lambda shard: shard.add("a")) == 2
        assert shard_of(runtime).counts.committed("a") == 2

    play(scenario)


def test_a_response_is_sent_when_its_records_are_committed() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        log.commits_at_once = False

        first = runtime.write(0, lambda shard: shard.add("a"))
        second = runtime.write(0, lambda shard: shard.add("a"))
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)
        assert not first.done()
        assert shard_of(runtime).counts["a"] == 2
        assert shard_of(runtime).counts.committed("a") is None

        log.commit()
        assert (await first, await second) == (1, 2)
        assert shard_of(runtime).counts.committed("a") == 2

    play(scenario)


def test_a_response_without_records_waits_for_earlier_writes() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        log.commits_at_once = False
        runtime.write(0, lambda shard: shard.add("a"))

        seen = runtime.write(0, lambda shard: CoordinatorResult(shard.counts["a"]))

        assert isinstance(seen, asyncio.Future)
        assert not seen.done()
        log.commit()
        assert await seen == 1

    play(scenario)


def test_a_refused_append_changes_nothing_and_returns_a_coordinator_error() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        for refusal, reported in (
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR),
        ):
            log.refusal = refusal
            with pytest.raises(Refused) as caught:
                runtime.write(0, lambda shard: shard.add("a"))
            assert caught.value.error is reported
        assert "a" not in shard_of(runtime).counts

    play(scenario)


def test_a_shard_whose_log_failed_is_not_served_any_more(caplog: pytest.LogCaptureFixture) -> None:
    """Its timers would always fail, and its responses would have state that was not written."""

    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        shard = shard_of(runtime)

        def tick() -> CoordinatorResult[None]:
            return CoordinatorResult(None, shard.add("ticks").records)

        for name in ("one", "two"):
            shard.context.timers.set(name, 1000, tick)
        log.refusal = ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(10)

        assert shard.events == ["loaded", "unloaded"]
        with pytest.raises(Refused) as caught:
            runtime.write(0, lambda shard: CoordinatorResult(shard.counts.get("a")))
        assert caught.value.error is ErrorCode.NOT_COORDINATOR
        log.refusal = None
        runtime.elected(0)
        assert runtime.write(0, lambda shard: shard.add("a")) == 1

    play(scenario)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "__counts-0 is not served any more",
        "__counts-0 cannot be written",
    ]


def test_a_shard_whose_log_fails_during_a_write_fails_all_waiting_requests() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        shard = shard_of(runtime)
        log.commits_at_once = False
        parked = [runtime.write(0, lambda shard: shard.add("a")) for _ in range(2)]

        waits, log.waits = log.waits, []
        for _, _, listener in waits:
            listener(ErrorCode.KAFKA_STORAGE_ERROR)

        for waiting in parked:
            assert isinstance(waiting, asyncio.Future)
            with pytest.raises(Refused) as caught:
                await waiting
            assert caught.value.error is ErrorCode.NOT_COORDINATOR
        assert shard.events == ["loaded", "unloaded"]

    play(scenario)


def test_the_commit_callback_gets_the_result_of_the_write() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        heard: list[ErrorCode] = []

        def add(shard: CountShard) -> CoordinatorResult[str]:
            answer: DeferredResponse[str] = DeferredResponse()

            def reported(error: ErrorCode) -> None:
                heard.append(error)
                answer.complete(error.name)

            return CoordinatorResult(answer, shard.add("a").records, reported)

        runtime.elected(0)
        assert await runtime.write(0, add) == "NONE"  # type: ignore[misc]
        log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await runtime.write(0, add) == "COORDINATOR_NOT_AVAILABLE"  # type: ignore[misc]
        log.refusal = None
        log.commits_at_once = False
        parked = runtime.write(0, add)
        log.lose_leadership()
        assert await parked == "NOT_COORDINATOR"  # type: ignore[misc]
        assert heard == [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]

    play(scenario)


def test_a_request_whose_commit_times_out_is_retried_though_the_write_stays() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        log.commits_at_once = False
        parked = runtime.write(0, lambda shard: shard.add("a"))
        assert isinstance(parked, asyncio.Future)

        with pytest.raises(Refused) as caught:
            await parked
        assert caught.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.commit()
        assert shard_of(runtime).counts.committed("a") == 1

    play(scenario)


def test_requests_without_records_that_timed_out_are_not_kept_while_the_log_is_stuck() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        log.commits_at_once = False
        parked = [runtime.write(0, lambda shard: shard.add("a"))]
        parked += [runtime.write(0, lambda shard: CoordinatorResult(shard.counts["a"])) for _ in range(100)]

        for waiting in parked:
            assert isinstance(waiting, asyncio.Future)
            with pytest.raises(Refused):
                await waiting

        assert len(log.waits) == 1, "the write itself may still be committed"
        log.commit()
        assert shard_of(runtime).counts.committed("a") == 1

    play(scenario)


def test_requests_that_wait_for_a_commit_fail_when_leadership_is_lost() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        log.commits_at_once = False
        parked = runtime.write(0, lambda shard: shard.add("a"))
        assert isinstance(parked, asyncio.Future)

        log.lose_leadership()
        runtime.resigned(0)

        with pytest.raises(Refused) as caught:
            await parked
        assert caught.value.error is ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_a_shard_is_loaded_before_it_is_served_and_only_the_last_record_of_a_key_is_replayed() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        for name in ("a", "b", "a", "c"):
            runtime.write(0, lambda shard, name=name: shard.add(name))  # type: ignore[misc]
        runtime.write(0, lambda shard: CoordinatorResult(None, [CoordinatorRecord(CountKey(name="c"), None)]))

        other = make_runtime(log)
        other.elected(0)
        with pytest.raises(Refused) as caught:
            other.read(0, lambda shard: shard)
        assert caught.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert other.is_loading
        await asyncio.sleep(1)

        shard = shard_of(other)
        assert list(shard.counts.items()) == [("b", 1), ("a", 2)]
        assert shard.events == ["loaded"]
        assert other.write(0, lambda shard: shard.add("a")) == 3
        await other.close()

    play(scenario)


def test_a_loaded_shard_serves_when_everything_that_it_replayed_is_committed() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        runtime.write(0, lambda shard: shard.add("a"))
        log.committed[0] = 0

        other = make_runtime(log)
        other.elected(0)
        await asyncio.sleep(1)
        assert other.is_loading

        log.commit()
        await asyncio.sleep(1)
        assert shard_of(other).counts.committed("a") == 1
        await other.close()

    play(scenario)


def test_a_log_that_cannot_be_read_is_not_served_and_others_are(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        log.batches[0] = [
            bytes(kernel.build_batch([(0, b"\x00\x07", b"\x00\x00", ())]))  # a truncated key
        ]
        log.ends[0] = log.committed[0] = 1
        runtime.elected(0)
        runtime.elected(1)
        await asyncio.sleep(1)

        with pytest.raises(Refused) as caught:
            runtime.read(0, lambda shard: shard)
        assert caught.value.error is ErrorCode.NOT_COORDINATOR
        assert runtime.write(1, lambda shard: shard.add("a")) == 1

    play(scenario)
    assert "__counts-0 cannot be loaded" in caplog.text


def test_a_shard_that_fails_to_load_is_reloaded_while_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        for partition in (0, 1):
            runtime.elected(partition)
            runtime.write(partition, lambda shard: shard.add("a"))

        other = make_runtime(log)
        for partition in (0, 1):
            other.elected(partition)
        broken = other._shards._owned[0].shard
        broken.counts = None  # type: ignore[assignment]
        await asyncio.sleep(0.05)

        with pytest.raises(Refused) as caught:
            other.read(0, lambda shard: shard)
        assert caught.value.error is ErrorCode.NOT_COORDINATOR
        assert other.write(1, lambda shard: shard.add("a")) == 2
        assert other.is_loading, "or a list of groups without this partition would look complete"

        await asyncio.sleep(1)
        assert other.write(0, lambda shard: shard.add("a")) == 2
        assert not other.is_loading
        await other.close()

    play(scenario)
    (record,) = [record for record in caplog.records if "cannot be loaded" in record.getMessage()]
    assert record.exc_info is not None, "this is a bug, and somebody has to find it"


def test_a_shard_that_cannot_be_recreated_after_a_failure_is_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        makes = 0

        def make_shard(context: ShardContext) -> CountShard:
            nonlocal makes
            makes += 1
            if makes <= 2:
                raise ValueError("a bug")
            return CountShard(context)

        other = make_runtime(log, make_shard)
        other.elected(0)
        with pytest.raises(Refused) as caught:
            other.read(0, lambda shard: shard)
        assert caught.value.error is ErrorCode.NOT_COORDINATOR

        await asyncio.sleep(1)
        assert makes == 3
        assert other.write(0, lambda shard: shard.add("a")) == 1
        await other.close()

    play(scenario)
    assert caplog.text.count("__counts-0 cannot be loaded: a bug") == 2


def test_loading_logs_one_summary_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="penstock.coordinator")

    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        for partition in (0, 1):
            runtime.elected(partition)
            runtime.write(partition, lambda shard: shard.add("a"))
        other = make_runtime(log)
        for partition in (0, 1):
            other.elected(partition)
        await asyncio.sleep(1)
        await other.close()

    play(scenario)

    assert [record.getMessage().partition(" in ")[0] for record in caplog.records] == [
        "loaded 2 partitions of __counts: 2 records"
    ]


def test_records_of_newer_software_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        log.batches[0] = [bytes(kernel.build_batch([(0, b"\x00\x63newer", b"\x00\x00", ())]))]
        log.ends[0] = log.committed[0] = 1
        runtime.elected(0)
        await asyncio.sleep(1)

        assert runtime.write(0, lambda shard: shard.add("a")) == 1

    play(scenario)
    assert "type 99, written by newer software" in caplog.text


def test_requests_are_refused_after_resignation() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        shard = shard_of(runtime)
        waiting: DeferredResponse[str] = DeferredResponse()
        shard.waiting.append(waiting)
        decided: CoordinatorResult[str] = CoordinatorResult(waiting)
        answer = runtime.write(0, lambda shard: decided)
        assert isinstance(answer, asyncio.Future)

        runtime.resigned(0)

        assert await answer == "gone"
        assert shard.events == ["loaded", "unloaded"]
        with pytest.raises(Refused) as caught:
            runtime.write(0, lambda shard: shard.add("a"))
        assert caught.value.error is ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_a_timer_writes_like_a_request_and_is_retried_if_the_log_refuses() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        shard = shard_of(runtime)

        def tick() -> CoordinatorResult[None]:
            return CoordinatorResult(None, shard.add("ticks").records)

        shard.context.timers.set("tick", 1000, tick)
        log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(1.2)
        assert "ticks" not in shard.counts
        log.refusal = None
        await asyncio.sleep(0.5)
        assert shard.counts["ticks"] == 1
        assert len(shard.context.timers) == 0

    play(scenario)


def test_timers_of_a_resigned_shard_do_not_run() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        shard = shard_of(runtime)
        ticks: list[int] = []

        def tick() -> CoordinatorResult[None]:
            ticks.append(1)
            return DONE

        shard.context.timers.set("tick", 1000, tick)
        runtime.resigned(0)
        await asyncio.sleep(2)
        assert ticks == []

    play(scenario)


@pytest.mark.parametrize(("count", "name_bytes"), [(2000, 1000), (500, 4000)])
def test_a_large_write_is_split_into_batches_and_loads_as_one(count: int, name_bytes: int) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        records = [
            CoordinatorRecord(CountKey(name=f"{index:05d}" + "x" * name_bytes), CountValue(count=index))
            for index in range(count)
        ]
        runtime.write(0, lambda shard: CoordinatorResult(None, records))

        assert len(log.batches[0]) == 3
        other = make_runtime(log)
        other.elected(0)
        await asyncio.sleep(1)
        assert list(shard_of(other).counts.values()) == list(range(count))
        await other.close()

    play(scenario)


def test_a_timer_that_fails_does_not_stop_the_timers_of_its_shard(caplog: pytest.LogCaptureFixture) -> None:
    """A failing timer used to stop all session timeouts of its shard."""
    expired: list[str] = []

    class ExpiringShard(CountShard):
        def loaded(self) -> None:
            for name, delay_ms in (("broken", 1000), ("sound", 2000)):
                self.context.timers.set(name, delay_ms, lambda name=name: self.expire(name))  # type: ignore[misc]

        def expire(self, name: str) -> CoordinatorResult[None]:
            if name == "broken" and "broken" not in expired:
                expired.append(name)
                raise KeyError(name)
            expired.append(name)
            return CoordinatorResult(None, self.add(name).records)

    async def scenario(_: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime = make_runtime(log, ExpiringShard)
        runtime.elected(0)
        await asyncio.sleep(5)

        assert expired == ["broken", "broken", "sound"]
        assert dict(shard_of(runtime).counts.committed_items()) == {"broken": 1, "sound": 1}
        await runtime.close()

    play(scenario)
    (said,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "__counts-0 failed to decide: 'broken'" in said.getMessage()
    assert said.exc_info is not None


def test_a_shard_that_cannot_replay_its_records_is_reloaded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It used to serve state that was behind its log."""

    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        runtime.write(0, lambda shard: shard.add("a"))
        first = shard_of(runtime)
        waiting: DeferredResponse[str] = DeferredResponse()
        first.waiting.append(waiting)
        first.replay = None  # type: ignore[assignment, method-assign]

        with pytest.raises(Refused) as caught:
            runtime.write(0, lambda shard: shard.add("a"))
        assert caught.value.error is ErrorCode.NOT_COORDINATOR
        assert waiting.is_complete, "who waits is sent away"
        with pytest.raises(Refused):
            shard_of(runtime)

        await asyncio.sleep(1)
        assert shard_of(runtime) is not first
        assert shard_of(runtime).counts["a"] == 2
        assert runtime.write(0, lambda shard: shard.add("a")) == 3

    play(scenario)
    assert "__counts-0 failed to write: records up to offset 2 cannot be replayed" in caplog.text


@pytest.mark.parametrize("commits_at_once", [True, False])
def test_a_shard_is_reloaded_after_its_commit_callback_failed(commits_at_once: bool) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        def reported(error: ErrorCode) -> None:
            raise KeyError("who")

        log.commits_at_once = commits_at_once
        runtime.elected(0)
        before = shard_of(runtime)
        heard: list[ErrorCode] = []

        answer = runtime.write(0, lambda shard: CoordinatorResult(1, shard.add("a").records, reported))

        if isinstance(answer, asyncio.Future):
            behind = runtime.write(0, lambda _: CoordinatorResult("seen", (), heard.append))
            log.commit()
            answer = await answer
            assert isinstance(behind, asyncio.Future)
            assert await behind == "seen"
            assert heard == [ErrorCode.NOT_COORDINATOR], "a dropped shard acts on nothing any more"
        assert answer == 1, "it is committed"
        await asyncio.sleep(1)
        assert shard_of(runtime) is not before
        assert shard_of(runtime).counts["a"] == 1

    play(scenario)


def test_a_decision_for_all_shards_that_fails_in_one_is_applied_to_the_others() -> None:
    """A metadata change used to stop at the first failing shard, and the node with it."""

    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        for partition in range(3):
            runtime.elected(partition)

        def decide(shard: CountShard) -> CoordinatorResult[None]:
            if shard.context.partition == 1:
                raise KeyError("topic")
            return CoordinatorResult(None, shard.add("seen").records)

        runtime.write_to_all_shards(decide)

        assert [shard.counts["seen"] for shard in runtime.shards()] == [1, 1]
        await asyncio.sleep(1)
        assert len(list(runtime.shards())) == 3

    play(scenario)


def test_a_shard_whose_quiet_decision_fails_is_reloaded_so_that_it_is_decided_again() -> None:
    """`write_quietly` completes a transaction, and no client waits for it: raising the error would lose the decision,
    but the loaded shard makes it again."""

    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        runtime.write(0, lambda shard: shard.add("a"))
        before = shard_of(runtime)

        def decide(shard: CountShard) -> CoordinatorResult[None]:
            raise KeyError("producer")

        assert not runtime.write_quietly(0, decide)

        assert before.events == ["loaded", "unloaded"]
        await asyncio.sleep(1)
        assert shard_of(runtime) is not before
        assert shard_of(runtime).counts["a"] == 1
        assert runtime.write_quietly(0, lambda shard: CoordinatorResult(None, shard.add("a").records))
        assert shard_of(runtime).counts["a"] == 2

    play(scenario)


def test_a_quiet_decision_that_is_refused_is_logged_and_keeps_the_shard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        def decide(shard: CountShard) -> CoordinatorResult[None]:
            return CoordinatorResult(None, shard.add("a").records)

        assert not runtime.write_quietly(0, decide)
        runtime.elected(0)
        shard = shard_of(runtime)
        log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert not runtime.write_quietly(0, decide)

        assert shard_of(runtime) is shard
        assert "a" not in shard.counts

    play(scenario)
    assert [line.getMessage().split(":")[0] for line in caplog.records] == [
        "__counts-0 cannot be written"
    ] * 2


def test_a_request_whose_decision_fails_does_not_unload_the_shard() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        shard = shard_of(runtime)

        def decide(shard: CountShard) -> CoordinatorResult[int]:
            raise KeyError("member")

        with pytest.raises(KeyError):
            runtime.write(0, decide)
        assert shard_of(runtime) is shard

    play(scenario)


def test_records_that_cannot_be_encoded_are_refused_and_the_shard_is_still_served() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        shard = shard_of(runtime)
        heard: list[ErrorCode] = []

        with pytest.raises(Refused) as caught:
            runtime.write(
                0, lambda shard: CoordinatorResult(1, shard.add("long" * 10_000).records, heard.append)
            )

        assert caught.value.error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert heard == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert shard_of(runtime) is shard
        assert runtime.write(0, lambda shard: shard.add("a")) == 1

    play(scenario)


def test_a_shard_whose_log_always_fails_is_reloaded_with_backoff(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        log.batches[0] = [bytes(kernel.build_batch([(0, b"\x00\x07", b"\x00\x00", ())]))]
        log.ends[0] = log.committed[0] = 1
        runtime.elected(0)
        await asyncio.sleep(3600)
        runtime.resigned(0)
        count = len(caplog.records)
        await asyncio.sleep(3600)
        assert len(caplog.records) == count

    play(scenario)
    assert 60 <= len([record for record in caplog.records if "cannot be loaded" in record.getMessage()]) <= 75


def test_a_shard_is_reloaded_after_an_unexpected_failure_of_its_log() -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        append = log.append

        def append_and_fail(partition: int, batches: bytearray, guard: object = None) -> int:
            append(partition, batches, guard)
            raise ValueError("after the write")

        log.append = append_and_fail  # type: ignore[method-assign]
        with pytest.raises(Refused) as caught:
            runtime.write(0, lambda shard: shard.add("a"))
        assert caught.value.error is ErrorCode.NOT_COORDINATOR
        log.append = append  # type: ignore[method-assign]

        await asyncio.sleep(1)
        assert runtime.write(0, lambda shard: shard.add("a")) == 2

    play(scenario)


def test_a_shard_whose_log_is_not_committed_yet_does_not_delay_the_others() -> None:
    """After a fail-over, one slow follower kept all groups of the new coordinator from being served."""

    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        for partition in (0, 1):
            runtime.elected(partition)
            runtime.write(partition, lambda shard: shard.add("a"))
            runtime.resigned(partition)
        log.committed[0] = 0
        runtime.elected(0)
        runtime.elected(1)
        await asyncio.sleep(1)

        assert runtime.read(1, lambda shard: shard.counts["a"]) == 1
        with pytest.raises(Refused) as refused:
            runtime.read(0, lambda shard: shard)
        assert refused.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert runtime.is_loading

        log.commit(0)
        await asyncio.sleep(0)
        assert runtime.read(0, lambda shard: shard.counts["a"]) == 1
        assert not runtime.is_loading

    play(scenario)


def test_a_shard_that_loses_its_partition_while_loading_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        runtime.write(0, lambda shard: shard.add("a"))
        runtime.resigned(0)
        log.committed[0] = 0
        runtime.elected(0)
        await asyncio.sleep(1)
        log.lose_leadership()
        await asyncio.sleep(0)
        runtime.resigned(0)

        with pytest.raises(Refused) as refused:
            runtime.read(0, lambda shard: shard)
        assert refused.value.error is ErrorCode.NOT_COORDINATOR
        assert not runtime.is_loading

    caplog.set_level(logging.INFO)
    play(scenario)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_timers_that_cannot_write_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Every group logged a line twice a second while replicas were missing."""

    async def scenario(runtime: CoordinatorRuntime[CountShard], log: ListLog) -> None:
        runtime.elected(0)
        log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        timers = shard_of(runtime).context.timers
        for name in "abc":
            timers.set(name, 0, lambda name=name: shard_of(runtime).add(name).with_response(None))
        await asyncio.sleep(10)
        assert caplog.text.count("cannot be written") == 1

        log.refusal = None
        await asyncio.sleep(1)
        assert all(shard_of(runtime).counts[name] == 1 for name in "abc")

    play(scenario)
