"""When a query ends after its batch, when it is stopped, and when its batch is cancelled."""

from __future__ import annotations

from typing import Any

from penstock.spark.pipelines.stopping import ASKING_SECONDS, stop_after_batches


class FakeThread:
    """The thread of a query in a JVM, which is in a batch for some more polls."""

    def __init__(self, looks: float) -> None:
        self.looks = looks

    def isAlive(self) -> bool:
        self.looks -= 1
        return self.looks > 0


class FakeJvmQuery:
    """As much of Spark's classes as needed; `_jsq` is PySpark's reference to the JVM."""

    def __init__(
        self, *, looks: float, message: str = "Processing new data", is_in_trigger: bool = True
    ) -> None:
        self.thread = FakeThread(looks)
        self.status = {"isTriggerActive": is_in_trigger, "message": message}
        self.lastProgress = None
        self.reported: list[Any] = []
        self.stopped_with: float | None = None
        self._jsq = self

    def stop(self) -> None:
        self.stopped_with = self.thread.looks

    # methods of the JVM's objects
    def streamingQuery(self) -> FakeJvmQuery:
        return self

    def state(self) -> FakeJvmQuery:
        return self

    def queryExecutionThread(self) -> FakeThread:
        return self.thread

    def get(self, *_: object) -> FakeJvmQuery:
        return self

    def getClass(self) -> FakeJvmQuery:
        return self

    def getClassLoader(self) -> FakeJvmQuery:
        return self

    def getPackageName(self) -> str:
        return "org.apache.spark"

    def loadClass(self, name: str) -> FakeJvmQuery:
        assert name == "org.apache.spark.TERMINATED$"
        return self

    def getField(self, name: str) -> FakeJvmQuery:
        assert name == "MODULE$"
        return self

    def set(self, state: object) -> None:
        self.reported.append(state)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.hushed = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def hush(self) -> None:
        self.hushed += 1


def stop(query: FakeJvmQuery, clock: Clock, *, batch_seconds: float = 60.0) -> None:
    stop_after_batches(
        [query],
        batch_seconds=batch_seconds,
        before_cancel=clock.hush,
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )


def test_a_stopped_query_finishes_its_batch_and_starts_no_other() -> None:
    query, clock = FakeJvmQuery(looks=20), Clock()

    stop(query, clock)

    assert query.reported
    assert query.stopped_with is not None
    assert query.stopped_with <= 0  # its thread had ended by itself
    assert clock.hushed == 0


def test_a_batch_that_takes_too_long_is_cancelled() -> None:
    query, clock = FakeJvmQuery(looks=float("inf")), Clock()

    stop(query, clock, batch_seconds=5.0)

    assert 5.0 <= clock.now < 6.0
    assert clock.hushed == 1


def test_a_stop_does_not_wait_for_a_source_that_waits_for_a_broker() -> None:
    query, clock = FakeJvmQuery(looks=float("inf"), message="Getting offsets from penstock"), Clock()

    stop(query, clock)

    assert ASKING_SECONDS <= clock.now < ASKING_SECONDS + 1


def test_a_query_that_waits_for_its_trigger_is_stopped_at_once() -> None:
    query, clock = FakeJvmQuery(looks=float("inf"), is_in_trigger=False), Clock()

    stop(query, clock)

    assert clock.now == 0.0


def test_without_sparks_internals_a_query_is_stopped_after_a_reported_batch() -> None:
    class Changed(FakeJvmQuery):
        isActive = True

        def state(self) -> FakeJvmQuery:
            raise TypeError("'JavaPackage' object is not callable")

    class Progress:
        batchId = 7

    query, clock = Changed(looks=float("inf")), Clock()
    clock.sleep = lambda seconds: setattr(query, "lastProgress", Progress())  # type: ignore[method-assign]

    stop(query, clock)

    assert query.stopped_with is not None
    assert not query.reported
