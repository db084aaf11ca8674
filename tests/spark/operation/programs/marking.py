"""Beside the program: workers know of it only by what the program sends them."""

from __future__ import annotations

MARK = "!"


def marked(word: str) -> str:
    return word + MARK
