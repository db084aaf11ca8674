"""Turns committed records into images, on every node.

The quorum passes committed batches in order, each once. The loader applies them to the newest image and publishes the
change. It is the only caller of `MetadataCache.publish`.

- The records of a metadata transaction (KIP-868) have no effect until the transaction ends, even if that is many
  batches later. Nothing is published meanwhile.
- A snapshot replaces the image. The listeners get the difference, with deleted topics, as for any other change.
- The active controller has applied its records before they are committed, so it passes the change itself (`publish`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta, difference
from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.framing import decode_record
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.records import BeginTransactionRecord
from penstock.metadata.replay import ImageBuilder


class CommittedBatch(Protocol):
    """Records that were appended together; see `quorum.log.DataBatch`."""

    @property
    def last_offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def values(self) -> Sequence[bytes]: ...


class MetadataLoader:
    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._transaction: ImageBuilder | None = None
        """Holds the records of an open metadata transaction."""
        self._offset = cache.image.offset
        self._epoch = cache.image.epoch

    @property
    def image(self) -> MetadataImage:
        return self._cache.image

    @property
    def last_offset(self) -> int:
        """The offset of the last record that was passed. The image may be older, while a transaction is open."""
        return self._offset

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    def replay(self, batches: Iterable[CommittedBatch]) -> None:
        """Apply committed batches and publish the new image."""
        builder = self._transaction or ImageBuilder(self._cache.image)
        for batch in batches:
            self._check_order(batch)
            first_offset = batch.last_offset - len(batch.values) + 1
            for offset, value in enumerate(batch.values, first_offset):
                record = _decode(value, offset)
                if isinstance(record, BeginTransactionRecord) and builder.has_records:
                    builder = self._publish_before(builder)
                _apply(builder, record, offset)
                self._offset, self._epoch = offset, batch.epoch
        if builder.is_in_transaction:
            self._transaction = builder
        else:
            self._transaction = None
            if self._offset != self._cache.image.offset:
                self._cache.publish(builder.finish(offset=self._offset, epoch=self._epoch))

    def load_snapshot(self, batches: Iterable[CommittedBatch], *, end_offset: int, epoch: int) -> None:
        """Replace the image by that of a snapshot of all records below `end_offset`."""
        builder = ImageBuilder(EMPTY_IMAGE)
        for batch in batches:
            for value in batch.values:
                builder.replay(decode_record(value))
        image = builder.finish(offset=end_offset - 1, epoch=epoch).image
        self._transaction = None
        self._offset, self._epoch = image.offset, image.epoch
        self._cache.publish(difference(self._cache.image, image))

    def publish(self, delta: MetadataDelta) -> None:
        """A change that the active controller of this node has made and committed."""
        assert self._transaction is None, "a leader starts after the last committed transaction"
        self._offset, self._epoch = delta.image.offset, delta.image.epoch
        self._cache.publish(delta)

    def drop_transaction(self) -> None:
        """A new leader aborts the transaction that its predecessor left open."""
        self._transaction = None

    def _publish_before(self, builder: ImageBuilder) -> ImageBuilder:
        """Publish the records before a transaction, so that they do not wait for its end."""
        self._cache.publish(builder.finish(offset=self._offset, epoch=self._epoch))
        return ImageBuilder(self._cache.image)

    def _check_order(self, batch: CommittedBatch) -> None:
        if batch.last_offset - len(batch.values) < self._offset:
            raise CorruptMetadata(
                f"the records up to offset {batch.last_offset} were passed after those up to {self._offset}"
            )


def _decode(value: bytes, offset: int) -> object:
    try:
        return decode_record(value)
    except CorruptMetadata as error:
        raise CorruptMetadata(f"at offset {offset} of the metadata log: {error}") from error


def _apply(builder: ImageBuilder, record: object, offset: int) -> None:
    try:
        builder.replay(record)
    except CorruptMetadata as error:
        raise CorruptMetadata(f"at offset {offset} of the metadata log: {error}") from error
