"""The data of the examples: what it is like in time, which brokers and windows look at."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from types import ModuleType

import pytest

from harness.brokers import ROOT

START_MS = 1_800_000_000_000
EXAMPLES = ("word_count", "sessions", "fraud", "change_stream", "access_logs")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_unit", ROOT / "examples" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", EXAMPLES)
def test_events_do_not_run_ahead_of_the_clock_until_the_broker_refuses_them(
    generate: ModuleType, name: str
) -> None:
    events = list(itertools.islice(generate.GENERATORS[name](random.Random(7), START_MS, 200.0), 20_000))

    # 20,000 at 200 a second are 100 seconds of their own time, which is what a user waits for them.
    assert [event.ms for event in events] == sorted(event.ms for event in events)
    assert events[0].ms >= START_MS
    assert 80_000 < events[-1].ms - START_MS < 120_000


def test_a_count_of_events_is_the_past_and_not_the_future(generate: ModuleType) -> None:
    assert generate.start_of(now_ms=START_MS, count=20_000, rate=200.0) == START_MS - 100_000
    assert generate.start_of(now_ms=START_MS, count=None, rate=200.0) == START_MS
