"""Random walks of producers, mostly valid ones, get the same responses from Penstock and Apache Kafka.

Needs the jars of Apache Kafka (`.cache/kafka/libs`). A failure prints the last steps of the walk; `--seed` repeats one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.admin import new_name
from harness.brokers import Broker, KafkaBroker, PenstockBroker
from harness.group_requests import await_coordinator
from harness.requests import create_topic
from harness.transaction_walks import NEWER, OLDER, ProtocolVersions, Side, Walk, take
from harness.transactions import await_transactions
from harness.wire import WireConnection

pytestmark = pytest.mark.penstock_only("asks both")

SEEDS = 4
STEPS = 120
STEPS_SHOWN = 15


@pytest.fixture(scope="module")
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Broker, Broker]]:
    libs: Path | None = request.config.getoption("--kafka-libs")
    penstock = PenstockBroker(tmp_path_factory.mktemp("penstock"))
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"), libs=libs)
    try:
        for broker in (penstock, kafka):
            broker.start()
        yield penstock, kafka
    finally:
        for broker in (penstock, kafka):
            broker.close()
    penstock.check_output()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    one, count = metafunc.config.getoption("--seed"), metafunc.config.getoption("--seeds")
    metafunc.parametrize("seed", [one] if one is not None else range(count or SEEDS))


@pytest.mark.parametrize("dialect", [OLDER, NEWER], ids=["older", "newer"])
def test_a_random_walk_gets_the_same_responses_as_from_kafka(
    both: tuple[Broker, Broker], dialect: ProtocolVersions, seed: int
) -> None:
    names, topic, group = [new_name("walker"), new_name("walker")], new_name("walked"), new_name("readers")
    ours, theirs = (WireConnection(broker.port) for broker in both)
    with ours, theirs:
        for connection in (ours, theirs):
            create_topic(connection, topic, partitions=2)
            await_coordinator(connection, group)
            for name in names:
                await_transactions(connection, name)
        walk = Walk(random.Random(seed), dialect, names=names, topic=topic, group=group)
        sides = Side(ours), Side(theirs)
        taken = []
        for _ in range(STEPS):
            step, our_answer, their_answer = take(walk, sides, names=names)
            taken.append(f"{step.what}: {their_answer}")
            assert our_answer == their_answer, "\n".join(taken[-STEPS_SHOWN:])
