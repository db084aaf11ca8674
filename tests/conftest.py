"""Options and fixtures for all tests: which broker they run against, and seeds."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest

from harness.brokers import OWN_TESTING_PORTS, Broker, KafkaBroker, PenstockBroker
from harness.signals import restore_signals
from penstock.testing import node_process

StartBroker = Callable[..., Broker]

# Two timers of Hypothesis fail on a busy machine: the deadline of an example, and the health check of how long input
# takes to generate. Neither says anything about the code under test.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
untimed = hypothesis.settings.get_profile("untimed")
# The same input in every run, so that only a change can make a test fail. `make explore` uses new input.
hypothesis.settings.register_profile("same", untimed, derandomize=True)
hypothesis.settings.register_profile("explore", untimed, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption(
        "--broker",
        choices=("penstock", "kafka"),
        default="penstock",
        help="the broker for compatibility tests; `kafka` proves that they expect what Kafka does",
    )
    group.addoption(
        "--kafka-libs",
        type=Path,
        default=None,
        help="folder with the jars for --broker=kafka (default: .cache/kafka/libs)",
    )
    group.addoption("--seeds", type=int, default=None, help="how many seeds a simulation test runs")
    group.addoption("--seed", type=int, default=None, help="the seed that a simulation test repeats")


def pytest_configure(config: pytest.Config) -> None:
    restore_signals()
    node_process.PORTS = OWN_TESTING_PORTS  # another worker cannot choose the same port
    config.addinivalue_line("markers", "penstock_only(reason): skipped with --broker=kafka")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --broker=kafka, skip tests of what only Penstock promises."""
    if config.getoption("--broker") == "penstock":
        return
    for item in items:
        if marker := item.get_closest_marker("penstock_only"):
            item.add_marker(pytest.mark.skip(reason=f"only Penstock: {marker.args[0]}"))


def pytest_collection_finish() -> None:
    """Modules and collected tests stay until the end: 700,000 objects that each garbage collection would visit."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def broker_kind(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--broker"))


@pytest.fixture(scope="session")
def make_broker(request: pytest.FixtureRequest, broker_kind: str) -> StartBroker:
    """Makes a broker of the chosen kind over a folder. It is not started yet."""

    def make(folder: Path, *, settings: Mapping[str, str] | None = None) -> Broker:
        if broker_kind == "penstock":
            return PenstockBroker(folder, settings=settings)
        return KafkaBroker(folder, settings=settings, libs=request.config.getoption("--kafka-libs"))

    return make


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, make_broker: StartBroker) -> Iterator[Broker]:
    """A running broker that the session shares, for tests that leave nothing but their own topics."""
    settings = {
        # Tests write records with old timestamps, which retention must not delete.
        "log.initial.task.delay.ms": "3600000",
        # Tests leave fetch sessions open, and a full cache would refuse sessions to later tests.
        "max.incremental.fetch.session.cache.slots": "100000",
    }
    broker = make_broker(tmp_path_factory.mktemp("cluster"), settings=settings)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def broker(tmp_path: Path, make_broker: StartBroker) -> Iterator[Broker]:
    """A running broker for one test, which may stop and kill it."""
    broker = make_broker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.close()
    broker.check_output()
