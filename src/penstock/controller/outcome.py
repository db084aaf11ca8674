"""The result of a decision: records to append, and the response after they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")

RECORDS_MAX = 10_000
"""The maximum of one request, as in Kafka: a decision must fit into one batch, and must not delay others."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """The records to write, and the response to send once they are committed."""

    records: Sequence[object]
    response: R
    is_atomic: bool = True
    """Whether the records must be in one batch. Others are split if they are too large."""
    is_complete: bool = True
    """False: a periodic decision has more to change, and is made again after other requests had their turn."""
