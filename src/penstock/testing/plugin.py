"""The pytest plugin, there as soon as Penstock is installed: the fixture `penstock` is a real broker of the test's own.

    def test_orders(penstock):
        client = AnyKafkaClient(penstock.bootstrap_servers)

`@pytest.mark.penstock(settings={"num.partitions": 3})` sets what the broker shall be set to. When a test fails, the
end of its broker's log stands in the report.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import Broker

_BROKER = pytest.StashKey["Broker"]()


@pytest.fixture
def penstock(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker in a fresh folder on a free port; `bootstrap_servers` is where clients connect."""
    from penstock.testing.broker import Broker  # a suite that does not use it should not pay for it

    settings: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers("penstock"))):
        settings.update(_settings_of(marker))
    with Broker(settings=settings) as broker:
        request.node.stash[_BROKER] = broker
        yield broker


def _settings_of(marker: pytest.Mark) -> Mapping[str, object]:
    """A slip must not leave a test with a broker that is not set as it says."""
    unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name != "settings")]
    if unknown:
        raise pytest.UsageError(
            f"@pytest.mark.penstock takes only settings={{...}}, and not {', '.join(unknown)}"
        )
    settings: Mapping[str, object] = marker.kwargs.get("settings", {})
    return settings


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
        report.sections.append(("penstock's log", broker.log() or "It has told nothing."))
    return report
