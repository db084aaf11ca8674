"""A prepared transaction (KIP-939): written, flushed and still open. Another process may end it.

It is a small value that can be pickled or stored. Any process that has it can end the transaction with
`Admin.complete_transaction`, also after the producer was closed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, Self

from penstock.client import errors
from penstock.client.argument_types import shown

NOTHING = "-"


class RecordPlace(NamedTuple):
    """The place of one record of a transaction."""

    topic: str
    partition: int
    offset: int


class Outcome(enum.Enum):
    """How a prepared transaction ended."""

    COMMITTED = enum.auto()
    ABORTED = enum.auto()
    EMPTY = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """Identifies a prepared transaction. `str(prepared)` and `PreparedTransaction.parse(text)` convert to text and
    back."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    record: RecordPlace | None = None
    """One of its records. A coordinator forgets the outcome of a transaction when the next producer takes over the
    transactional id; the log does not, and this record finds it there. None if there is none or it is unknown."""
    is_empty: bool = False
    """Whether nothing was written. Then no EndTxn request is needed."""

    def __str__(self) -> str:
        place = NOTHING if self.is_empty else "" if self.record is None else "/".join(map(str, self.record))
        return f"{self.producer_id}:{self.producer_epoch}:{place}:{self.transactional_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        if not isinstance(text, str):
            raise errors.BadArgumentType(f"text must be a string made by str(prepared), not {shown(text)}")
        try:
            producer_id, producer_epoch, place, transactional_id = text.split(
                ":", 3
            )  # a transactional id may contain colons
            record = None
            if place and place != NOTHING:
                topic, partition, offset = place.split("/")
                record = RecordPlace(topic, int(partition), int(offset))
            return cls(transactional_id, int(producer_id), int(producer_epoch), record, place == NOTHING)
        except ValueError:
            raise errors.BadArgument(f"{text!r} is not a prepared transaction") from None
