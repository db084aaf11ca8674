"""A module next to the program: workers get it only with the program."""

from __future__ import annotations

MARK = "!"


def marked(word: str) -> str:
    return word + MARK
