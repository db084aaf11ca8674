"""The pytest plugin, available as soon as Penstock is installed.

    def test_orders(penstock):                    # a broker of the test's own
        client = AnyKafkaClient(penstock.bootstrap_servers)

    def test_payments(penstock_shared):           # one broker for all tests, and names of its own for each
        topic = penstock_shared.topic("payments")

`@pytest.mark.penstock(settings={"num.partitions": 3})` sets what the broker of `penstock` is set to; the ini option
`penstock_shared_settings` does it for the shared one. When a test fails, the end of its broker's log is in the report.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import Broker
    from penstock.testing.shared import SharedBroker, SharedSession

LOG_BYTES_MAX = 8192
SHARED_SETTINGS = "penstock_shared_settings"

_BROKER = pytest.StashKey["Broker"]()
_LOG_START = pytest.StashKey[int]()
"""How long the broker's log was when the test began."""


@pytest.fixture
def penstock(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker in a fresh folder on a free port; `bootstrap_servers` is where clients connect."""
    from penstock.testing.broker import Broker  # a suite that does not use it should not pay for it

    settings: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers("penstock"))):
        settings.update(_settings_of(marker))
    with Broker(settings=settings) as broker:
        _watch(request.node, broker, log_start=0)
        yield broker


@pytest.fixture(scope="session")
def penstock_session(request: pytest.FixtureRequest) -> Iterator[SharedSession]:
    """The broker that all tests share: one for the session, and one for each worker of xdist."""
    from penstock.testing.shared import SharedSession

    settings = dict(map(_read_setting, request.config.getini(SHARED_SETTINGS)))
    with SharedSession(settings=settings) as session:
        yield session


@pytest.fixture
def penstock_shared(
    request: pytest.FixtureRequest, penstock_session: SharedSession
) -> Iterator[SharedBroker]:
    """The shared broker with names of this test's own: `penstock_shared.topic("orders")`."""
    if any(_settings_of(marker) for marker in request.node.iter_markers("penstock")):
        raise pytest.UsageError(
            "all tests share the broker of penstock_shared, so one test cannot have settings of its own; "
            f"use the fixture penstock, or set {SHARED_SETTINGS} for all tests"
        )
    broker = penstock_session.broker
    _watch(request.node, broker, log_start=_log_size(broker))
    with penstock_session.share() as shared:
        yield shared


def _watch(node: pytest.Item, broker: Broker, *, log_start: int) -> None:
    node.stash[_BROKER] = broker
    node.stash[_LOG_START] = log_start


def _log_size(broker: Broker) -> int:
    return broker.log_file.stat().st_size if broker.log_file.exists() else 0


def _settings_of(marker: pytest.Mark) -> Mapping[str, object]:
    """A slip must not leave a test with a broker that is not set as it says."""
    unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name != "settings")]
    if unknown:
        raise pytest.UsageError(
            f"@pytest.mark.penstock takes only settings={{...}}, and not {', '.join(unknown)}"
        )
    settings: Mapping[str, object] = marker.kwargs.get("settings", {})
    return settings


def _read_setting(line: str) -> tuple[str, str]:
    name, separator, value = line.partition("=")
    if not separator or not name.strip():
        raise pytest.UsageError(f"{SHARED_SETTINGS}: {line} must be key=value, such as num.partitions=3")
    return name.strip(), value.strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SHARED_SETTINGS,
        "settings of the broker that the fixture `penstock_shared` shares, one key=value on each line",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "penstock(settings): settings of the broker that the fixture `penstock` starts"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    broker = item.stash.get(_BROKER, None)
    if report.failed and broker is not None and call.when == "call":
        report.sections.append(("penstock's log", _log_of_test(item, broker) or "It has logged nothing."))
    return report


def _log_of_test(item: pytest.Item, broker: Broker) -> str:
    """What the broker logged during this test, at most its end."""
    logged = _log_size(broker) - item.stash[_LOG_START]
    return broker.log(last_bytes=min(logged, LOG_BYTES_MAX)) if logged > 0 else ""
