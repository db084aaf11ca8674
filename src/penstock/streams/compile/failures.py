"""Failures of user functions, and the records that caused them.

A failure names the topic, partition and offset of the record while they are known. After a columnar fold, and for
buffered records, only the key is known.
"""

from __future__ import annotations

from typing import Any

from penstock.client.argument_types import quoted
from penstock.client.errors import PenstockError
from penstock.streams.functions import KEY_LETTERS_MAX, noted_key


class OperatorFailed(PenstockError):
    """A function of an operator raised. `at` and `of` return a copy with more details of the record."""

    def __init__(self, operator: str, reason: BaseException, where: str = "", key: str | None = None) -> None:
        self.operator = operator
        self.reason = reason
        self.where = where
        """With its preposition: `at lines-0 offset 17`."""
        self.key = noted_key(reason) if key is None else key
        """As shown to users; None if there is no key."""
        about = f" {where}" if where else ""
        of_key = "" if self.key is None else f" (key {self.key})"
        super().__init__(f"{operator} failed{about}: {_kind(reason)}: {reason}{of_key}")

    def at(self, topic: str | None, partition: int | None, offset: int | None) -> OperatorFailed:
        """A copy for the record at this offset, unless its position is known."""
        if self.where or topic is None:
            return self
        return OperatorFailed(self.operator, self.reason, f"at {topic}-{partition} offset {offset}", self.key)

    def among(self, topic: str, partition: int, first: int, last: int) -> OperatorFailed:
        """A copy for one of the records at these offsets, unless its position is known."""
        if self.where:
            return self
        offsets = f"offset {first}" if first == last else f"an offset from {first} to {last}"
        return OperatorFailed(self.operator, self.reason, f"at {topic}-{partition} {offsets}", self.key)

    def during(self, what: str) -> OperatorFailed:
        """A copy for something other than a record, unless its position is known."""
        return self if self.where else OperatorFailed(self.operator, self.reason, what, self.key)

    def of(self, key: Any) -> OperatorFailed:
        """A copy for a record with this key, unless its key is known."""
        if self.key is not None:
            return self
        return OperatorFailed(self.operator, self.reason, self.where, quoted(key, KEY_LETTERS_MAX))

    def __reduce__(self) -> Any:
        # The class of the reason may not exist in another process; its message is what counts.
        reported = _ReportedError(_kind(self.reason), str(self.reason))
        return OperatorFailed, (self.operator, reported, self.where, self.key)


class _ReportedError(Exception):
    """A reason reported by another process."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


def _kind(reason: BaseException) -> str:
    return reason.kind if isinstance(reason, _ReportedError) else type(reason).__name__
