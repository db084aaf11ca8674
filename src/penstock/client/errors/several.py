"""When a call was about several things, and some of them failed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client.errors.base import PenstockError

__all__ = ["ItemsFailed"]

K = TypeVar("K", bound=Hashable)


class ItemsFailed(PenstockError, ExceptionGroup[PenstockError]):
    """Some of several things failed: a group of their errors, which also holds what came of the others.

    `except* errors.TopicAlreadyExists` takes its part of it, `except errors.ItemsFailed` all; `failures` and `results`
    tell which is which.
    """

    failures: Mapping[Any, PenstockError]
    """Every item that failed, and why."""
    results: Mapping[Any, Any]
    """What came of the others. It has happened, and is not taken back."""

    def __new__(
        cls,
        words: str,
        errors: Sequence[PenstockError],
        failures: Mapping[Any, PenstockError] | None = None,
        results: Mapping[Any, Any] | None = None,
    ) -> ItemsFailed:
        return super().__new__(cls, words, errors)

    def __init__(
        self,
        words: str,
        errors: Sequence[PenstockError],
        failures: Mapping[Any, PenstockError] | None = None,
        results: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(words)
        self.args = (words, errors, failures, results)
        self.failures = dict(failures or {})
        self.results = dict(results or {})

    @classmethod
    def of(cls, what: str, failures: Mapping[K, PenstockError], results: Mapping[K, Any]) -> ItemsFailed:
        """`what` is what was to be done, as in "delete topics"."""
        count = len(failures) + len(results)
        words = f"could not {what}" if count == 1 else f"could not {what}: {len(failures)} of {count} failed"
        return cls(words, list(failures.values()), failures, results)

    def __str__(self) -> str:
        """All of them: one after the colon, several on lines of their own."""
        told = [str(error) for error in self.exceptions]
        return f"{self.message}: {told[0]}" if len(told) == 1 else "\n  ".join([f"{self.message}:", *told])

    def derive(self, errors: Sequence[PenstockError], /) -> ItemsFailed:  # type: ignore[override]
        """The part of it that `except*` takes; what succeeded stays with every part."""
        failures = {item: error for item, error in self.failures.items() if error in errors}
        return ItemsFailed(self.message, errors, failures, self.results)
