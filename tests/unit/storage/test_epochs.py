"""Leader epochs: which epoch wrote which offsets, and where it ended."""

from __future__ import annotations

import pytest

from penstock.storage.checkpoints import decode_epochs, encode_epochs
from penstock.storage.epochs import LeaderEpochs


def test_an_epoch_is_assigned_once() -> None:
    epochs = LeaderEpochs()
    epochs.assign(1, 0)
    epochs.assign(1, 5)
    epochs.assign(3, 5)

    assert epochs.entries() == [(1, 0), (3, 5)]
    assert epochs.latest == 3


def test_an_assignment_removes_what_it_contradicts() -> None:
    epochs = LeaderEpochs([(1, 0), (3, 5), (4, 9)])

    epochs.assign(5, 5)

    assert epochs.entries() == [(1, 0), (5, 5)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (2, (2, 20)), (3, (2, 20)), (5, (5, 30)), (6, (6, 99)), (7, (-1, -1))],
)
def test_the_end_offset_of_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    epochs = LeaderEpochs([(2, 10), (5, 20), (6, 30)])

    assert epochs.end_offset_for(asked, log_end_offset=99) == answer


def test_an_empty_log_has_no_epochs() -> None:
    assert LeaderEpochs().end_offset_for(3, log_end_offset=0) == (-1, -1)


def test_the_epoch_of_an_offset() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 20)])

    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 100)] == [-1, 2, 2, 5, 5]


def test_truncating_the_end_removes_later_epochs() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 20), (6, 30)])
    epochs.truncate_end(31)
    assert not epochs.is_dirty

    epochs.truncate_end(20)

    assert epochs.entries() == [(2, 10)]
    assert epochs.is_dirty


def test_truncating_the_start_keeps_the_epoch_that_covers_it() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 20), (6, 30)])

    epochs.truncate_start(9)
    assert epochs.entries()[0] == (2, 10)
    epochs.truncate_start(25)
    assert epochs.entries() == [(5, 25), (6, 30)]
    epochs.truncate_start(30)
    assert epochs.entries() == [(6, 30)]


def test_epochs_are_extended_when_the_start_moves_back() -> None:
    epochs = LeaderEpochs([(5, 25)])

    epochs.extend_back(5, 20)
    assert epochs.entries() == [(5, 20)]
    epochs.extend_back(4, 10)
    assert epochs.entries() == [(4, 10), (5, 20)]
    epochs.extend_back(3, 15)
    assert epochs.entries() == [(4, 10), (5, 20)]


def test_the_file_is_kafkas() -> None:
    data = encode_epochs([(2, 10), (5, 20)])

    assert data == b"0\n2\n2 10\n5 20\n"
    assert decode_epochs(data, name="x") == [(2, 10), (5, 20)]
