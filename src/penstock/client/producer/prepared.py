"""A transaction that is written, flushed and open, and whose end somebody else decides (KIP-939).

It is a small noun that can be pickled, kept in a database or written to a log: whoever has it can end the transaction
from any process (`Admin.complete_transaction`), after the producer that wrote it is gone.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, Self

from penstock.client import errors
from penstock.client.argument_types import shown

NOTHING = "-"


class RecordPlace(NamedTuple):
    """Where one record of a transaction stands."""

    topic: str
    partition: int
    offset: int


class Outcome(enum.Enum):
    """What became of a prepared transaction."""

    COMMITTED = enum.auto()
    ABORTED = enum.auto()
    EMPTY = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """`str(prepared)` and `PreparedTransaction.parse(text)` are one another's inverse."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    record: RecordPlace | None = None
    """One of its records. A coordinator forgets how a transaction ended when the next producer of that name comes; the
    log does not, and can be asked by this. None where there is none, or who made this did not know."""
    is_empty: bool = False
    """Nothing was written, so that there is nothing to end."""

    def __str__(self) -> str:
        place = NOTHING if self.is_empty else "" if self.record is None else "/".join(map(str, self.record))
        return f"{self.producer_id}:{self.producer_epoch}:{place}:{self.transactional_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        if not isinstance(text, str):
            raise errors.BadArgumentType(
                f"text must be a string, as str(prepared) gives it, not {shown(text)}"
            )
        try:
            producer_id, producer_epoch, place, transactional_id = text.split(":", 3)  # an id may have colons
            record = None
            if place and place != NOTHING:
                topic, partition, offset = place.split("/")
                record = RecordPlace(topic, int(partition), int(offset))
            return cls(transactional_id, int(producer_id), int(producer_epoch), record, place == NOTHING)
        except ValueError:
            raise errors.BadArgument(f"{text!r} is not a prepared transaction") from None
