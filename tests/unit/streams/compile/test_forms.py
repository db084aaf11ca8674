"""A table changes from columns to pages and back, and keeps its state."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import Builder, hopping
from penstock.streams.interpret import Interpreter

Build = Callable[[Builder], object]


def counts(app: Builder) -> Any:
    return app.stream("in", key=str, value=int).group_by_key().count(name="counts")


def windowed(app: Builder) -> Any:
    grouped = app.stream("in", key=str, value=int).group_by_key()
    return grouped.windowed_by(hopping(0.5, every=0.1, grace=9)).count(name="counts")


def plain(app: Builder, table: Callable[[Builder], Any]) -> None:
    table(app).to("out")


def filtered(app: Builder, table: Callable[[Builder], Any]) -> None:
    """The same for operators: a fold of columns does not know the previous value."""
    table(app).filter(lambda count: count > 0).to("out")


@pytest.mark.parametrize("table", [counts, windowed])
@pytest.mark.parametrize("builds", [(plain, filtered), (filtered, plain), (plain, filtered, plain)])
def test_a_table_continues_in_another_form(builds: tuple[Any, ...], table: Callable[[Builder], Any]) -> None:
    rng = random.Random(1)
    model = Builder()
    plain(model, table)
    interpreter = Interpreter(model.topology)
    before: Stages | None = None
    time_ms = 1000
    for build in builds:
        app = Builder()
        build(app, table)
        stages = Stages(app.topology)
        if before is not None:
            stages.log = before.log
            stages.running[0].pages = before.running[0].pages
            stages.running[0].positions = before.running[0].positions
        for _ in range(50):
            time_ms += rng.randint(1, 5)
            key = f"key {rng.randint(0, 9)}".encode()
            stages.send("in", Written(key, bytes(8), time_ms))
            interpreter.feed("in", key, bytes(8), time_ms)
        stages.run()
        before = stages
    assert before is not None

    ours = {record.key: record.value for record in before.written("out")}
    assert ours == {output.key: output.value for output in interpreter.outputs["out"]}
    domains = before.running[0].domains
    assert domains is not None
    is_fold = bool(domains.folds)
    assert is_fold == (builds[-1] is plain)
