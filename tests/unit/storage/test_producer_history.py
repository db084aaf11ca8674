"""Batches that were in flight at a restart are recognized as duplicates, although snapshots have only one batch."""

from __future__ import annotations

import pytest

from harness.storage import Place, append, make_batch
from penstock.storage import producer_history
from penstock.storage.errors import OutOfOrderSequence
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings

PRODUCER = {"producer_id": 7, "producer_epoch": 0}
IN_FLIGHT = range(5)


def send(log: Log, sequence: int, **fields: int) -> tuple[int, bool]:
    info = append(log, make_batch(1, base_sequence=sequence, **{**PRODUCER, **fields}))
    return info.first_offset, info.is_duplicate


@pytest.mark.parametrize("others", [0, 40])
@pytest.mark.parametrize("how", ["restart", "kill"])
@pytest.mark.parametrize("rolls", [False, True])
async def test_all_batches_in_flight_are_recognized_after_a_restart(
    how: str, rolls: bool, others: int
) -> None:
    batch_bytes = len(make_batch(1))
    settings = LogSettings(segment_bytes=3 * batch_bytes if rolls else 1 << 20, index_interval_bytes=0)
    place = Place(settings=settings)
    log = place.create()
    for sequence in range(12):
        send(log, sequence)
        for _ in range(others // 10):
            append(log, make_batch(1))
    offsets = [send(log, 7 + sent)[0] for sent in IN_FLIGHT]

    log = await getattr(place, how)()

    assert [send(log, 7 + sent) for sent in IN_FLIGHT] == [(offset, True) for offset in offsets]
    assert send(log, 12) == (log.end_offset - 1, False)


async def test_a_batch_is_recognized_after_other_appends_since_the_restart() -> None:
    place = Place()
    log = place.create()
    for sequence in range(4):
        send(log, sequence)
    log = await place.restart()
    send(log, 4)

    assert send(log, 0) == (0, True)


async def test_a_gap_is_refused_after_a_restart_too() -> None:
    place = Place()
    log = place.create()
    for sequence in range(3):
        send(log, sequence)
    log = await place.restart()

    with pytest.raises(OutOfOrderSequence):
        send(log, 4)
    assert send(log, 3) == (3, False)


async def test_batches_of_an_earlier_epoch_are_not_restored() -> None:
    place = Place()
    log = place.create()
    send(log, 0)
    send(log, 1)
    send(log, 0, producer_epoch=1)
    log = await place.restart()

    with pytest.raises(OutOfOrderSequence):
        send(log, 2, producer_epoch=1)
    assert [batch.first_offset for batch in log.producers.get(7).batches] == [2]  # type: ignore[union-attr]


async def test_the_search_for_old_batches_is_bounded_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_history, "SEARCH_BYTES_MAX", 10 * len(make_batch(1)))
    place = Place(settings=LogSettings(index_interval_bytes=0))
    log = place.create()
    send(log, 0)
    for _ in range(20):
        append(log, make_batch(1))
    send(log, 1)
    log = await place.restart()

    with pytest.raises(OutOfOrderSequence):
        send(log, 0)
    monkeypatch.setattr(producer_history, "SEARCH_BYTES_MAX", 1 << 20)
    with pytest.raises(OutOfOrderSequence):
        send(log, 0)


async def test_batches_from_before_a_producer_expired_are_not_restored() -> None:
    place = Place()
    log = place.create()
    for sequence in range(3):
        send(log, sequence)
    log.producers.expire(2**60, expiration_ms=0)
    send(log, 0)
    log = await place.restart()

    with pytest.raises(OutOfOrderSequence):
        send(log, 2)
