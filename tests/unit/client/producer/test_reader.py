"""The consumer of a read-process-write loop: where it goes on after a commit, an abort, or neither is known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.group.nouns import GroupMetadata, Offset
from penstock.client.producer.reader import Reader
from penstock.client.settings import ConsumerSettings

P0 = TopicPartition("orders", 0)


class FakeConsumer:
    def __init__(self) -> None:
        self.settings = ConsumerSettings.of(None, {}, {"group": "g", "enable_auto_commit": False})
        self.offset = 10
        self.committed = 0

    def positions(self) -> dict[TopicPartition, int]:
        return {P0: self.offset}

    def group_metadata(self) -> GroupMetadata:
        return GroupMetadata("g")

    def rewind(self) -> None:
        self.offset = self.committed

    def _note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        self.committed = offsets[P0].offset


@pytest.fixture
def consumer() -> FakeConsumer:
    return FakeConsumer()


@pytest.fixture
def reader(consumer: FakeConsumer) -> Reader:
    made = Reader()
    made.begin(consumer)
    assert made.offsets() == ({P0: Offset(10)}, GroupMetadata("g"))
    return made


def test_after_a_commit_it_goes_on_behind_what_was_processed(reader: Reader, consumer: FakeConsumer) -> None:
    reader.committed()

    assert (consumer.offset, consumer.committed) == (10, 10)


def test_after_an_abort_it_is_rewound_once(reader: Reader, consumer: FakeConsumer) -> None:
    reader.aborted()
    assert consumer.offset == 0

    consumer.offset = 5
    reader.aborted()
    assert consumer.offset == 5, "the transaction is not this consumer's any more"


def test_a_commit_whose_outcome_is_not_known_leaves_it_where_it_is(
    reader: Reader, consumer: FakeConsumer
) -> None:
    reader.uncertain()
    consumer.offset = 20  # the loop went on, and the next transaction could not begin
    reader.not_begun(consumer)
    assert consumer.offset == 20

    reader.committed()  # by a second commit()

    assert (consumer.offset, consumer.committed) == (10, 10), "what came after is given again"


def test_a_transaction_that_cannot_begin_rewinds_it(consumer: FakeConsumer) -> None:
    Reader().not_begun(consumer)

    assert consumer.offset == 0


def test_a_consumer_that_was_closed_meanwhile_is_left_alone(reader: Reader, consumer: FakeConsumer) -> None:
    def closed() -> None:
        raise errors.ClientClosed

    consumer.rewind = closed  # type: ignore[method-assign]

    reader.aborted()


def test_without_a_consumer_nothing_is_sent() -> None:
    reader = Reader()
    reader.begin(None)

    assert reader.offsets() is None
    reader.committed()
    reader.aborted()
