"""The error of a call about several items of which some failed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client.errors.base import PenstockError

__all__ = ["ItemsFailed"]

K = TypeVar("K", bound=Hashable)


class ItemsFailed(PenstockError, ExceptionGroup[PenstockError]):
    """Some items of a call failed: an exception group with the error of each, and the results of the others.

    `except* errors.TopicAlreadyExists` handles the items that failed so; `except errors.ItemsFailed` handles all.
    """

    failures: Mapping[Any, PenstockError]
    """The error of each item that failed."""
    results: Mapping[Any, Any]
    """The result of each item that succeeded. These are not undone."""

    def __new__(
        cls,
        message: str,
        errors: Sequence[PenstockError],
        failures: Mapping[Any, PenstockError] | None = None,
        results: Mapping[Any, Any] | None = None,
    ) -> ItemsFailed:
        return super().__new__(cls, message, errors)

    def __init__(
        self,
        message: str,
        errors: Sequence[PenstockError],
        failures: Mapping[Any, PenstockError] | None = None,
        results: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.args = (message, errors, failures, results)
        self.failures = dict(failures or {})
        self.results = dict(results or {})

    @classmethod
    def of(cls, what: str, failures: Mapping[K, PenstockError], results: Mapping[K, Any]) -> ItemsFailed:
        """`what` completes "could not ...", as in "delete topics"."""
        count = len(failures) + len(results)
        message = (
            f"could not {what}" if count == 1 else f"could not {what}: {len(failures)} of {count} failed"
        )
        return cls(message, list(failures.values()), failures, results)

    def __str__(self) -> str:
        """One error after the colon, several on lines of their own."""
        text = [str(error) for error in self.exceptions]
        return f"{self.message}: {text[0]}" if len(text) == 1 else "\n  ".join([f"{self.message}:", *text])

    def derive(self, errors: Sequence[PenstockError], /) -> ItemsFailed:  # type: ignore[override]
        """The part that `except*` handles. Every part has all results."""
        failures = {item: error for item, error in self.failures.items() if error in errors}
        return ItemsFailed(self.message, errors, failures, self.results)
