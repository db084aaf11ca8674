"""What went wrong in a user's function, and with which record."""

from __future__ import annotations

from typing import Any

from penstock.client.errors import PenstockError


class OperatorFailed(PenstockError):
    """A function of an operator raised. Where it happened is added where it is known: see `at`."""

    def __init__(self, operator: str, reason: BaseException, where: str = "") -> None:
        self.operator = operator
        self.reason = reason
        self.where = where
        about = f" at {where}" if where else ""
        super().__init__(f"{operator} failed{about}: {type(reason).__name__}: {reason}")

    def at(self, topic: str | None, partition: int | None, offset: int | None) -> OperatorFailed:
        """The same, of this record."""
        if self.where or topic is None:
            return self
        return OperatorFailed(self.operator, self.reason, f"{topic}-{partition} offset {offset}")

    def __reduce__(self) -> Any:
        # The reason may be of a class that another process does not have; its words are what counts.
        return OperatorFailed, (
            self.operator,
            _Told(f"{type(self.reason).__name__}", str(self.reason)),
            self.where,
        )


class _Told(Exception):
    """A reason that was told by another process."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind
