"""The producer settings of a sink in addition to the user's."""

from __future__ import annotations

import pytest

from penstock.client.settings import ProducerSettings
from penstock.spark.sink.transactions import SinkAdmin, with_long_timeouts

SERVERS = {"bootstrap.servers": "localhost:1"}


@pytest.mark.parametrize(
    ("given", "block_ms", "delivery_ms"),
    [
        ({}, 180_000, 180_000),
        ({"max.block.ms": "9", "delivery.timeout.ms": "40000"}, 9, 40_000),
        ({"request.timeout.ms": "200000", "linger.ms": "7"}, 180_000, 200_007),
        ({"isolation.level": "read_committed"}, 180_000, 180_000),
    ],
    ids=["nothing", "both", "a longer request", "of a consumer"],
)
def test_a_broker_may_be_unavailable_for_three_minutes_by_default(
    given: dict[str, str], block_ms: int, delivery_ms: int
) -> None:
    settings = ProducerSettings.of(settings=with_long_timeouts(SERVERS | given))

    assert settings.get("max.block.ms") == block_ms
    assert settings.get("delivery.timeout.ms") == delivery_ms


@pytest.mark.parametrize("name", ["append", "read", "recall", "complete", "open_ids", "fence", "is_open"])
def test_the_calls_of_a_sink_do_not_check_their_arguments(name: str) -> None:
    """Every read of a ledger checked all objects in it against their annotations."""
    assert not hasattr(getattr(SinkAdmin, name), "__wrapped__")
    assert hasattr(SinkAdmin.complete_transaction, "__wrapped__")
