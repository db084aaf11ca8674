"""The check of index files that a node relies on."""

from __future__ import annotations

import pytest

from harness.storage import NOW_MS, Place, append, make_batch
from penstock.storage.settings import LogSettings
from simulator.checks.inspection import check_time_indexes
from simulator.simulation import BrokenPromise

FOLDER = "/data/orders-0"
FIRST_TIMES = f"{FOLDER}/00000000000000000000.timeindex"


@pytest.fixture
async def place() -> Place:
    """A log of two segments; the first is sealed."""
    place = Place(settings=LogSettings(segment_bytes=2 * len(make_batch(1))))
    log = place.create()
    for second in range(3):
        append(log, make_batch(1, timestamp=NOW_MS + 1000 * second))
    assert len(log.segments) == 2
    return place


async def test_indexes_of_an_intact_log_pass(place: Place) -> None:
    check_time_indexes(place.disk, FOLDER)


async def test_an_index_of_zeroes_is_found(place: Place) -> None:
    place.disk.overwrite(FIRST_TIMES, 0, bytes(12))

    with pytest.raises(BrokenPromise, match=f"timestamp 0, but its segment with {NOW_MS + 1000}"):
        check_time_indexes(place.disk, FOLDER)


async def test_an_empty_index_is_found(place: Place) -> None:
    place.disk.open(FIRST_TIMES).truncate(0)

    with pytest.raises(BrokenPromise, match="timestamp -1"):
        check_time_indexes(place.disk, FOLDER)
