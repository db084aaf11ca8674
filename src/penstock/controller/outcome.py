"""What a decision returns: the records that it wants written, and the answer once they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")

RECORDS_MAX = 10_000
"""Of one request, as in Kafka: what is decided at once must fit one batch of the log, and must not hold up
others."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    records: Sequence[object]
    response: R
    is_atomic: bool = True
    """Whether the records make sense only all together. Others are split where they outgrow one batch."""
