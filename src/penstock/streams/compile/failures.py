"""What went wrong in a user's function, and with which record.

The place of a record (topic, partition and offset) is told as long as it is known. Behind a fold of columns, and where
records wait for others, it is not known any more; the key is.
"""

from __future__ import annotations

from typing import Any

from penstock.client.argument_types import quoted
from penstock.client.errors import PenstockError
from penstock.streams.functions import KEY_LETTERS_MAX, key_told


class OperatorFailed(PenstockError):
    """A function of an operator raised. `at` and `of` give the same with more of what is known about the record."""

    def __init__(self, operator: str, reason: BaseException, where: str = "", key: str | None = None) -> None:
        self.operator = operator
        self.reason = reason
        self.where = where
        """With its preposition: `at lines-0 offset 17`."""
        self.key = key_told(reason) if key is None else key
        """As it is shown; None where there is none."""
        about = f" {where}" if where else ""
        of_key = "" if self.key is None else f" (key {self.key})"
        super().__init__(f"{operator} failed{about}: {_kind(reason)}: {reason}{of_key}")

    def at(self, topic: str | None, partition: int | None, offset: int | None) -> OperatorFailed:
        """The same, of the record that was read there, unless its place is known."""
        if self.where or topic is None:
            return self
        return OperatorFailed(self.operator, self.reason, f"at {topic}-{partition} offset {offset}", self.key)

    def among(self, topic: str, partition: int, first: int, last: int) -> OperatorFailed:
        """The same, of one of the records that were read there, unless its place is known."""
        if self.where:
            return self
        offsets = f"offset {first}" if first == last else f"an offset from {first} to {last}"
        return OperatorFailed(self.operator, self.reason, f"at {topic}-{partition} {offsets}", self.key)

    def during(self, what: str) -> OperatorFailed:
        """The same, of something that is no record, unless its place is known."""
        return self if self.where else OperatorFailed(self.operator, self.reason, what, self.key)

    def of(self, key: Any) -> OperatorFailed:
        """The same, of a record with this key, unless its key is known."""
        if self.key is not None:
            return self
        return OperatorFailed(self.operator, self.reason, self.where, quoted(key, KEY_LETTERS_MAX))

    def __reduce__(self) -> Any:
        # The reason may be of a class that another process does not have; its words are what counts.
        told = _Told(_kind(self.reason), str(self.reason))
        return OperatorFailed, (self.operator, told, self.where, self.key)


class _Told(Exception):
    """A reason that was told by another process."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(kind, words)
        self.kind = kind
        self.words = words

    def __str__(self) -> str:
        return self.words


def _kind(reason: BaseException) -> str:
    return reason.kind if isinstance(reason, _Told) else type(reason).__name__
