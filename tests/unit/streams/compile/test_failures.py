"""Whatever a user function does wrong, the error names the operator and the record: topic, partition and offset, or
the key if the record was folded into a table and its offset is no longer known."""

from __future__ import annotations

import operator
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import (
    Builder,
    Processor,
    Record,
    Stream,
    Transformer,
    session,
    tumbling,
    within,
)
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.functions import function_of

Build = Callable[[Stream[str, str]], object]

BAD = "bad"


def checked(value: Any) -> Any:
    if BAD in str(value):
        raise ValueError("it is bad")
    return value


class NoTruth:
    """Like a numpy array: neither true nor false."""

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


def first_letter_not_b(value: str) -> str:
    return next(letter for letter in value if letter not in BAD)


def sent(build: Build, *, seed: int = 0, values: tuple[str, ...] = ("x", BAD, "y"), **program: Any) -> Stages:
    app = Builder()
    build(app.stream("in", key=str, value=str))
    stages = Stages(app.topology, partitions=1, rng=random.Random(seed), **program)
    for at, value in enumerate(values):
        stages.send("in", Written(b"key-%d" % at, value.encode(), at))
    return stages


READING: dict[str, Build] = {
    "a pair that is none": lambda s: s.map(lambda k, v: v if v == BAD else (k, v), name="x"),
    "a pair that is a list": lambda s: s.map(lambda k, v: [k, v] if v == BAD else (k, v), name="x"),
    "one of several pairs that is none": lambda s: s.flat_map(
        lambda k, v: [(k, v), v if v == BAD else (k, v)], name="x"
    ),
    "text in place of a list": lambda s: s.flat_map(lambda v: v if v == BAD else [v], name="x"),
    "pairs that cannot be iterated": lambda s: s.flat_map(lambda k, v: 1 if v == BAD else [(k, v)], name="x"),
    "a record that is none": lambda s: s.map_records(lambda r: None if r.value == BAD else r, name="x"),
    "a record of no time": lambda s: s.map_records(
        lambda r: r.with_timestamp("now" if r.value == BAD else 1), name="x"
    ),
    "a record of before all time": lambda s: s.map_records(
        lambda r: r.with_timestamp(-1 if r.value == BAD else 1), name="x"
    ),
    "headers that are none": lambda s: s.map_records(
        lambda r: r.with_headers({"n": "text" if r.value == BAD else b"bytes"}), name="x"
    ),
    "an answer that is neither yes nor no": lambda s: s.filter(
        lambda v: NoTruth() if v == BAD else True, name="x"
    ),
    "a branch that is neither taken nor not": lambda s: s.split(
        lambda v: NoTruth() if v == BAD else True, name="x"
    ),
    "a value for which an iterator has no more": lambda s: s.map_values(first_letter_not_b, name="x"),
    "a topic that is none": lambda s: s.to(lambda v: None if v == BAD else "out", name="x"),
    "a topic with a name that none can have": lambda s: s.to(
        lambda v: "no topic!" if v == BAD else "out", name="x"
    ),
    "a partition that is not there": lambda s: s.to(
        "out", partition=lambda v, count: count if v == BAD else 0, name="x"
    ),
    "a key that cannot be written before a pack": lambda s: (
        s.select_key(lambda v: 7 if v == BAD else v, key=str, name="before")
        .group_by_key()
        .reduce(lambda a, b: b, name="x")
    ),
    "a value that cannot be written before a pack": lambda s: (
        s.map_values(lambda v: object() if v == BAD else {"v": v}, value=dict[str, str], name="before")
        .group_by_key()
        .reduce(lambda a, b: b, name="x")
    ),
    "a key that cannot be written before a fold": lambda s: (
        s.select_key(lambda v: 7 if v == BAD else v, key=str, name="before").group_by_key().count(name="x")
    ),
    "a value that cannot be summed": lambda s: (
        s.map_values(lambda v: v if v == BAD else 1, value=int, name="before")
        .group_by_key()
        .reduce(operator.add, name="x")
    ),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("what", READING)
def test_a_record_that_fails_in_a_reading_task_is_named_by_its_offset(what: str, seed: int) -> None:
    build = READING[what]
    with pytest.raises(OperatorFailed, match=r"^x failed at in-0 offset 1: "):
        sent(build, seed=seed).run()

    stages = sent(build, seed=seed, skips_failed=True, dead_letters="dead")
    stages.run()

    (letter,) = stages.written("dead")
    assert letter.value == BAD.encode()
    assert dict(letter.headers)["__streams.errors.offset"] == b"1"


@pytest.mark.parametrize("time", ["now", 2**70])
def test_an_invalid_timestamp_names_its_record(time: Any) -> None:
    app = Builder()
    app.stream("in", value=str, timestamp=lambda v: time if v == BAD else 1, name="x").to("out")
    stages = Stages(app.topology, partitions=1)
    for value in ("x", BAD):
        stages.send("in", Written(None, value.encode(), 1))

    with pytest.raises(OperatorFailed, match=r"^x failed at in-0 offset 1: ValueError: "):
        stages.run()


def test_all_records_are_written_but_those_that_fail() -> None:
    values = tuple(BAD if at % 7 == 3 else f"v{at}" for at in range(50))
    stages = sent(
        lambda s: s.to(lambda v: None if v == BAD else "out", name="x"), values=values, skips_failed=True
    )
    stages.run()

    assert [record.value for record in stages.written("out")] == [
        value.encode() for value in values if value != BAD
    ]


class Checking(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(checked(record.value)))


class CheckingTable(Transformer[str, str, str]):
    def transform(self, key: str, value: str | None) -> str | None:
        checked(value)
        return value


class Forwarding(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_headers({"n": "text" if record.value == BAD else b"bytes"}))  # type: ignore[dict-item]


STATEFUL: dict[str, Build] = {
    "a fold": lambda s: s.group_by_key().reduce(lambda a, b: checked(b), name="x"),
    "a fold of several": lambda s: (
        s.group_by_key()
        .cogroup(lambda a, v: v)
        .cogroup(s.filter(bool).group_by_key(), lambda a, v: checked(v))
        .aggregate(str, value=str, name="x")
    ),
    "an aggregate that cannot be written": lambda s: s.group_by_key().aggregate(
        str, lambda a, v: 7 if v == BAD else v, value=str, name="x"
    ),
    "a fold of windows": lambda s: (
        s.group_by_key().windowed_by(tumbling(1)).aggregate(str, lambda a, v: checked(v), value=str, name="x")
    ),
    "sessions that merge": lambda s: (
        s.group_by_key()
        .windowed_by(session(1))
        .aggregate(str, lambda a, v: a + v, merger=lambda a, b: checked(BAD), value=str, name="x")
    ),
    "a value of another type than was said": lambda s: (
        s.map_values(lambda v: 7 if v == BAD else {"v": v}, value=dict[str, str], name="before")
        .group_by_key()
        .reduce(lambda a, b: b, name="x")
    ),
    "a table's function": lambda s: s.to_table(name="t").map_values(checked, value=str, name="x"),
    "a table's filter": lambda s: s.to_table(name="t").filter(checked, name="x"),
    "a table's selector": lambda s: (
        s.to_table(name="t").group_by(lambda k, v: (checked(v), v), key=str, value=str).count(name="x")
    ),
    "a function behind a table": lambda s: (
        s.group_by_key().reduce(lambda a, b: b, name="t").to_stream().map_values(checked, name="x")
    ),
    "a sink behind a table": lambda s: (
        s.group_by_key().reduce(lambda a, b: b, name="t").to_stream().to(lambda v: checked(v), name="x")
    ),
    "a repartition behind a table": lambda s: (
        s.group_by_key()
        .reduce(lambda a, b: b, name="t")
        .to_stream(name="x")
        .repartition(partition=lambda v, count: len(checked(v)) % count)
    ),
    "a join of streams": lambda s: s.join(
        s.map_values(str.lower, name="other"), lambda a, b: checked(a), within=within(1), name="x"
    ),
    "a join of tables": lambda s: s.to_table(name="t").join(
        s.map_values(str.lower, name="other").to_table(name="u"), lambda a, b: checked(a), value=str, name="x"
    ),
    "a processor": lambda s: s.process(Checking, name="x"),
    "headers that a processor gives": lambda s: s.process(Forwarding, name="x").to("out"),
    "a transformer": lambda s: s.to_table(name="t").transform_values(CheckingTable, value=str, name="x"),
}


@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize("what", STATEFUL)
def test_a_record_that_fails_in_state_is_named_by_offset_and_key(what: str, caches: bool) -> None:
    def run(**program: Any) -> Stages:
        stages = sent(STATEFUL[what], caches=caches, values=("x", "y"), **program)
        stages.run()
        stages.send("in", Written(b"key-0", BAD.encode(), 3))
        stages.run()
        return stages

    with pytest.raises(OperatorFailed, match=r"^x failed at in-0 offset 2: .*"):
        run()
    letters = run(skips_failed=True, dead_letters="dead").written("dead")
    assert {dict(letter.headers)["__streams.errors.offset"] for letter in letters} == {b"2"}


@pytest.mark.parametrize("caches", [True, False])
def test_a_failed_fold_forwards_no_change_of_its_key(caches: bool) -> None:
    def build(stream: Stream[str, str]) -> None:
        folded = stream.group_by_key().aggregate(str, lambda a, v: a + checked(v), value=str, name="x")
        folded.to_stream().to("out")

    stages = sent(build, caches=caches, values=("x", BAD), skips_failed=True)
    stages.run()
    stages.send("in", Written(b"key-0", BAD.encode(), 3))
    stages.run()

    assert stages.written("out") == stages.written("app-x-changelog") == [Written(b"key-0", b"x", 0)]


def test_a_value_that_cannot_be_pickled_is_named_by_its_offset() -> None:
    class Stuck:
        def __reduce__(self) -> str:
            raise TypeError("it does not travel")

    def build(stream: Stream[str, str]) -> None:
        stuck = stream.map_values(lambda v: Stuck() if v == BAD else v, name="before")
        stuck.process(Nothing, name="x")

    with pytest.raises(
        OperatorFailed, match=r"^x failed at in-0 offset 1: TypeError: it does not travel \(key 'key-1'\)"
    ):
        sent(build).run()


class Nothing(Processor[str, Any, str, str]):
    def process(self, record: Record[str, Any]) -> None:
        pass


def test_an_error_object_raised_repeatedly_names_the_last_key() -> None:
    error = ValueError("always this one")

    def failing(value: str) -> str:
        raise error

    function = function_of(failing, "map_values")
    messages = []
    for key in ("alice", "bob"):
        with pytest.raises(ValueError, match="always this one"):
            function(key, "x")
        messages.append(str(OperatorFailed("x", error)))

    assert messages == [f"x failed: ValueError: always this one (key '{key}')" for key in ("alice", "bob")]


def test_a_failure_names_key_and_offset() -> None:
    with pytest.raises(
        OperatorFailed, match=r"^x failed at in-0 offset 1: ValueError: it is bad \(key 'key-1'\)$"
    ):
        sent(STATEFUL["a table's function"]).run()


def test_a_failure_after_a_columnar_fold_names_the_key() -> None:
    def build(stream: Stream[str, str]) -> None:
        counts = stream.group_by_key().count(name="t").to_stream()
        counts.map_values(lambda key, value: 1 // (key != "key-1"), name="x").to("out")

    with pytest.raises(OperatorFailed, match=r"^x failed: ZeroDivisionError: .* \(key 'key-1'\)$"):
        sent(build).run()
    stages = sent(build, skips_failed=True, dead_letters="dead")
    stages.run()

    assert sorted(record.key for record in stages.written("out")) == [b"key-0", b"key-2"]
    (letter,) = stages.written("dead")
    assert letter.key == b"key-1"
    assert dict(letter.headers)["__streams.errors.operator"] == b"x"


def test_a_failed_sink_after_a_columnar_fold_names_the_key() -> None:
    def build(stream: Stream[str, str]) -> None:
        stream.group_by_key().count(name="t").to_stream().to(
            lambda key, value: None if key == "key-1" else "out", name="x"
        )

    with pytest.raises(OperatorFailed, match=r"^x failed: TopologyError: .* \(key 'key-1'\)$"):
        sent(build).run()


def test_a_buffered_record_that_fails_is_named_by_its_key() -> None:
    def build(stream: Stream[str, str]) -> None:
        never = stream.filter(lambda v: False, name="never")
        stream.left_join(never, lambda a, b: checked(a), within=within(1, grace=0), name="x").to("out")

    stages = sent(build, values=("x", BAD))
    stages.run()
    stages.send("in", Written(b"late", b"y", 100_000))

    with pytest.raises(OperatorFailed, match=r"^x failed.*: ValueError: it is bad \(key 'key-1'\)$"):
        stages.run()


class Timed(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        context.schedule(1, self.tick, clock="wall")

    def process(self, record: Record[str, str]) -> None:
        pass

    def tick(self, time_ms: int) -> None:
        checked(BAD)


class Unready(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        checked(BAD)


class Unclosed(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        pass

    def close(self) -> None:
        checked(BAD)


@pytest.mark.parametrize(
    ("processor", "when"),
    [
        (Timed, "in a timer of wall time at 5000 ms"),
        (Unready, "while it began"),
        (Unclosed, "when it was closed"),
    ],
)
def test_a_failure_without_a_record_names_the_timer(processor: Any, when: str) -> None:
    stages = sent(lambda s: s.process(processor, name="x"))

    def run() -> None:
        stages.run()
        stages.advance(5000)

    with pytest.raises(OperatorFailed, match=f"^x failed {when}: ValueError: it is bad$"):
        run()


def test_a_failure_has_the_same_message_in_another_process() -> None:
    failure = OperatorFailed("x", ValueError("it is bad")).at("in", 0, 1).of("alice")

    copied = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(failure))))

    assert str(copied) == str(failure) == "x failed at in-0 offset 1: ValueError: it is bad (key 'alice')"


def test_a_key_that_cannot_be_shown_or_is_long_does_not_hide_the_failure() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ValueError("no message")

    assert "(key <Odd>)" in str(OperatorFailed("x", ValueError("bad")).of(Odd()))
    assert len(str(OperatorFailed("x", ValueError("bad")).of("k" * 10_000))) < 300
