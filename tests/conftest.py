"""What all tests share: the options of the suite and the broker they run against."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest

from harness.brokers import Broker, KafkaBroker, PenstockBroker
from harness.signals import restore_signals

StartBroker = Callable[..., Broker]

# Hypothesis measures time in two places, and a busy machine fails both: the deadline of an example, and the health
# check of how long input takes to generate. Neither says anything about the code under test.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
untimed = hypothesis.settings.get_profile("untimed")
# What a change has broken should be all that fails: other input than the last time is for `make explore`.
hypothesis.settings.register_profile("same", untimed, derandomize=True)
hypothesis.settings.register_profile("explore", untimed, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption(
        "--broker",
        choices=("penstock", "kafka"),
        default="penstock",
        help="what compatibility tests run against; `kafka` shows that they ask for what Kafka does",
    )
    group.addoption(
        "--kafka-libs",
        type=Path,
        default=None,
        help="folder of the jars for --broker=kafka (default: .cache/kafka/libs)",
    )
    group.addoption("--seeds", type=int, default=None, help="how many seeds a simulation test tries")
    group.addoption("--seed", type=int, default=None, help="the one seed that a simulation test repeats")


def pytest_configure(config: pytest.Config) -> None:
    restore_signals()
    config.addinivalue_line("markers", "penstock_only(reason): not asked of Apache Kafka with --broker=kafka")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Against Kafka, leave out what only Penstock promises."""
    if config.getoption("--broker") == "penstock":
        return
    for item in items:
        if marker := item.get_closest_marker("penstock_only"):
            item.add_marker(pytest.mark.skip(reason=f"only Penstock: {marker.args[0]}"))


@pytest.fixture(scope="session")
def broker_kind(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--broker"))


@pytest.fixture(scope="session")
def make_broker(request: pytest.FixtureRequest, broker_kind: str) -> StartBroker:
    """Builds a broker of the chosen kind over a folder, not started yet."""

    def make(folder: Path, *, settings: Mapping[str, str] | None = None) -> Broker:
        if broker_kind == "penstock":
            return PenstockBroker(folder, settings=settings)
        return KafkaBroker(folder, settings=settings, libs=request.config.getoption("--kafka-libs"))

    return make


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, make_broker: StartBroker) -> Iterator[Broker]:
    """One running broker, shared by all tests of a session that leave no trace but topics of their own."""
    settings = {
        # Tests write records with old timestamps, which retention must not delete.
        "log.initial.task.delay.ms": "3600000",
        # Tests leave fetch sessions behind, and a full cache gives none to the next test.
        "max.incremental.fetch.session.cache.slots": "100000",
    }
    broker = make_broker(tmp_path_factory.mktemp("cluster"), settings=settings)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def broker(tmp_path: Path, make_broker: StartBroker) -> Iterator[Broker]:
    """A broker of the test's own, running, to be stopped and killed at will."""
    broker = make_broker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.close()
    broker.check_output()
