"""The pytest plugin. It is active wherever Penstock is installed.

    def test_orders(penstock):                    # a broker of the test's own
        client = AnyKafkaClient(penstock.bootstrap_servers)

    def test_payments(penstock_shared):           # one broker for all tests, and names of its own for each
        topic = penstock_shared.topic("payments")

    def test_fail_over(penstock_cluster):         # three nodes of the test's own
        penstock_cluster.kill(2)

`@pytest.mark.penstock(settings={"num.partitions": 3})` sets the broker of `penstock` and all nodes of
`penstock_cluster`, `@pytest.mark.penstock(nodes=5)` the number of nodes; the ini option `penstock_shared_settings` sets
the shared broker. When a test fails, the end of its broker's log is in the report.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import Broker
    from penstock.testing.cluster import Cluster
    from penstock.testing.shared import SharedBroker, SharedSession

LOG_BYTES_MAX = 8192
CLUSTER_NODES = 3
SHARED_SETTINGS = "penstock_shared_settings"

_LOGS = pytest.StashKey[dict[Path, int]]()
"""The logs of the test's brokers, each with its size when the test began."""


@pytest.fixture
def penstock(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker in a fresh folder on a free port; `bootstrap_servers` is where clients connect."""
    from penstock.testing.broker import Broker  # imported here, so that suites without it start fast

    settings, nodes = _options_of(request.node)
    if nodes is not None:
        raise pytest.UsageError("the fixture penstock has one node; use penstock_cluster for more")
    with Broker(settings=settings) as broker:
        request.node.stash[_LOGS] = {broker.log_file: 0}
        yield broker


@pytest.fixture
def penstock_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster of three nodes, whose nodes can be killed, paused and cut off."""
    from penstock.testing.cluster import Cluster

    settings, nodes = _options_of(request.node)
    with Cluster(nodes or CLUSTER_NODES, settings=settings) as cluster:
        request.node.stash[_LOGS] = dict.fromkeys(cluster.log_files, 0)
        yield cluster


@pytest.fixture(scope="session")
def penstock_session(request: pytest.FixtureRequest) -> Iterator[SharedSession]:
    """The broker that all tests share: one per session, or per worker with pytest-xdist."""
    from penstock.testing.shared import SharedSession

    settings = dict(map(_read_setting, request.config.getini(SHARED_SETTINGS)))
    with SharedSession(settings=settings) as session:
        yield session


@pytest.fixture
def penstock_shared(
    request: pytest.FixtureRequest, penstock_session: SharedSession
) -> Iterator[SharedBroker]:
    """The shared broker, with names that are unique to this test: `penstock_shared.topic("orders")`."""
    if any(marker.args or marker.kwargs for marker in request.node.iter_markers("penstock")):
        raise pytest.UsageError(
            "all tests share the broker of penstock_shared, so a single test cannot change its settings; "
            f"use the fixture penstock, or set {SHARED_SETTINGS} for all tests"
        )
    broker = penstock_session.broker
    request.node.stash[_LOGS] = {broker.log_file: _log_size(broker.log_file)}
    with penstock_session.share() as shared:
        yield shared


def _log_size(log_file: Path) -> int:
    return log_file.stat().st_size if log_file.exists() else 0


def _options_of(node: pytest.Item) -> tuple[dict[str, object], int | None]:
    """The settings and the number of nodes of a test's markers. Rejects misspelled arguments: otherwise the test would
    run with the wrong settings."""
    settings: dict[str, object] = {}
    nodes: int | None = None
    for marker in reversed(list(node.iter_markers("penstock"))):
        unknown = [
            *map(repr, marker.args),
            *(name for name in marker.kwargs if name not in ("settings", "nodes")),
        ]
        if unknown:
            raise pytest.UsageError(
                f"@pytest.mark.penstock takes only settings={{...}} and nodes=N, not {', '.join(unknown)}"
            )
        settings.update(marker.kwargs.get("settings", {}))
        nodes = marker.kwargs.get("nodes", nodes)
    return settings, nodes


def _read_setting(line: str) -> tuple[str, str]:
    name, separator, value = line.partition("=")
    if not separator or not name.strip():
        raise pytest.UsageError(f"{SHARED_SETTINGS}: {line} must be key=value, such as num.partitions=3")
    return name.strip(), value.strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SHARED_SETTINGS,
        "settings of the broker that the fixture `penstock_shared` shares, one key=value per line",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "penstock(settings, nodes): settings of the broker of the fixture `penstock`, or of the nodes of "
        "`penstock_cluster`, and how many these are",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    logs = item.stash.get(_LOGS, None)
    if report.failed and logs is not None and call.when == "call":
        for log_file, start in logs.items():
            title = "penstock's log" if len(logs) == 1 else f"penstock's log: {log_file.stem}"
            report.sections.append((title, _log_of_test(log_file, start) or "The broker logged nothing."))
    return report


def _log_of_test(log_file: Path, start: int) -> str:
    """What the broker logged during this test, cut to the last `LOG_BYTES_MAX` bytes."""
    size = _log_size(log_file)
    if size <= start:
        return ""
    with log_file.open("rb") as log:
        log.seek(max(start, size - LOG_BYTES_MAX))
        return log.read().decode("utf-8", "replace")
