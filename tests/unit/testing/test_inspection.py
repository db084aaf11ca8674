"""Whether files that a node believes are as they should be."""

from __future__ import annotations

import pytest

from harness.storage import NOW_MS, Place, append, make_batch
from penstock.storage.settings import LogSettings
from penstock.testing.inspection import check_time_indexes
from penstock.testing.simulation import BrokenPromise

FOLDER = "/data/orders-0"
FIRST_TIMES = f"{FOLDER}/00000000000000000000.timeindex"


@pytest.fixture
async def place() -> Place:
    """A log of two segments, the first of which is sealed."""
    place = Place(settings=LogSettings(segment_bytes=2 * len(make_batch(1))))
    log = place.create()
    for second in range(3):
        append(log, make_batch(1, timestamp=NOW_MS + 1000 * second))
    assert log.segment_count() == 2
    return place


async def test_indexes_as_the_log_wrote_them_are_right(place: Place) -> None:
    check_time_indexes(place.disk, FOLDER)


async def test_an_index_of_zeroes_is_found(place: Place) -> None:
    place.disk.overwrite(FIRST_TIMES, 0, bytes(12))

    with pytest.raises(BrokenPromise, match=f"its latest time is 0, that of the records {NOW_MS + 1000}"):
        check_time_indexes(place.disk, FOLDER)


async def test_an_empty_index_is_found(place: Place) -> None:
    place.disk.open(FIRST_TIMES).truncate(0)

    with pytest.raises(BrokenPromise, match="its latest time is -1"):
        check_time_indexes(place.disk, FOLDER)
