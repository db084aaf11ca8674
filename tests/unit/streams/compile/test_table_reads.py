"""A lookup of a table row within a batch returns the current row, although updates are buffered."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import Builder, Stream, Table, Transformer
from penstock.streams.interpret import Interpreter

Make = Callable[[Builder, Stream[str, int]], Table[str, Any]]

RECORDS = 60


class Doubled(Transformer[str, Any, int]):
    def transform(self, key: str, value: Any) -> int | None:
        return None if value is None else 2 * len(str(value))


def listed(stream: Stream[str, int], name: str = "folded") -> Table[str, list[int]]:
    return stream.group_by_key().aggregate(list, lambda have, v: [*have, v][-4:], value=list[int], name=name)


def grown(have: list[int], value: int) -> list[int]:
    have.append(value)
    return have


TABLES: dict[str, Make] = {
    "a count": lambda app, s: s.group_by_key().count(name="folded"),
    "a fold": lambda app, s: listed(s),
    "a fold that changes in place": lambda app, s: s.group_by_key().aggregate(
        list, grown, value=list[int], name="folded"
    ),
    "a fold that deletes": lambda app, s: s.group_by_key().aggregate(
        int, lambda have, v: None if v % 3 == 0 else have + v, value=int, name="folded"
    ),
    "a fold's values": lambda app, s: listed(s).map_values(len, value=int),
    "a fold's values in a store": lambda app, s: listed(s).map_values(len, value=int, name="lengths"),
    "some of a fold": lambda app, s: listed(s).filter(lambda have: sum(have) % 2),
    "a transformed fold": lambda app, s: listed(s).transform_values(Doubled, value=int, name="doubled"),
    "a join of folds": lambda app, s: listed(s).left_join(
        s.group_by_key().count(name="counted"), lambda a, b: [*a, b or 0], value=list[int]
    ),
    "a join of a fold and a topic": lambda app, s: listed(s).outer_join(
        app.table("rows", key=str, value=int), lambda a, b: [*(a or ()), b or 0], value=list[int]
    ),
    "a table of a fold's stream": lambda app, s: listed(s).to_stream().map_values(len, value=int).to_table(),
    "a fold of a fold": lambda app, s: (
        listed(s)
        .to_stream()
        .group_by_key()
        .aggregate(int, lambda n, have: n + len(have), value=int, name="second")
    ),
    "a topic": lambda app, s: app.table("rows", key=str, value=int),
    "a stream": lambda app, s: s.to_table(),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", TABLES)
def test_a_stream_that_joins_a_table_sees_changes_of_the_same_batch(what: str, seed: int) -> None:
    app = Builder()
    stream = app.stream("in", key=str, value=int)
    table = TABLES[what](app, stream)
    for topic, left in (("own", stream), ("other", app.stream("asking", key=str, value=int))):
        left.left_join(table, lambda v, row: f"{v} {row}", value=str).to(topic)
    table.to_stream().map_values(str, value=str).to("updates")
    rng = random.Random(seed)
    stages = Stages(app.topology, partitions=1, rng=rng)
    interpreter = Interpreter(app.topology)

    for at in range(RECORDS):
        topic, key = rng.choice(("in", "in", "rows", "asking")), rng.choice("ab").encode()
        record = Written(key, rng.randint(1, 9).to_bytes(8, "big"), 1000 + at)
        if not interpreter.reads(topic):
            continue
        stages.send(topic, record)
        interpreter.feed(topic, record.key, record.value, record.timestamp_ms)
        if at == RECORDS // 2:
            stages.run()
    stages.run()

    for topic in ("own", "other"):
        assert by_key(stages.written(topic)) == by_key(interpreter.outputs[topic])
    # The last update of the table is the same as without buffering.
    ours, theirs = by_key(stages.written("updates")), by_key(interpreter.outputs["updates"])
    assert {key: found[-1] for key, found in ours.items()} == {
        key: found[-1] for key, found in theirs.items()
    }


def test_reading_a_fold_does_not_forward_its_updates() -> None:
    app = Builder()
    stream = app.stream("in", key=str, value=int)
    table = listed(stream)
    stream.join(table, lambda v, row: f"{v} {row}", value=str).to("out")
    table.to_stream().to("updates")
    stages = Stages(app.topology, partitions=1)

    for at in range(5):
        stages.send("in", Written(b"a", at.to_bytes(8, "big"), at))
    stages.run()

    assert len(stages.written("out")) == 5
    assert (
        stages.written("updates")
        == stages.written("app-folded-changelog")
        == [Written(b"a", b"[1,2,3,4]", 4)]
    )


def by_key(records: Any) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for record in records:
        found.setdefault(record.key, []).append(record.value)
    return found
