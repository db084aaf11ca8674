"""Parsers of option values.

Each raises ValueError with a message that follows "is", for an error such as "option columns: ',' is not a list of
names".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable


def text(given: str) -> str:
    if not given.strip():
        raise ValueError("empty")
    return given.strip()


def raw(given: str) -> str:
    return given


def boolean(given: str) -> bool:
    try:
        return {"true": True, "false": False}[given.strip().lower()]
    except KeyError:
        raise ValueError("neither true nor false") from None


def integer(least: int = 1) -> Callable[[str], int]:
    def parse(given: str) -> int:
        try:
            number = int(given.strip())
        except ValueError:
            raise ValueError("not a whole number") from None
        if number < least:
            raise ValueError(f"less than {least}")
        return number

    return parse


def choice(*words: str) -> Callable[[str], str]:
    def parse(given: str) -> str:
        for word in words:
            if given.strip().lower() == word.lower():
                return word
        raise ValueError(f"not one of {', '.join(words)}")

    return parse


def names(given: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in given.split(",") if each.strip())
    if not found:
        raise ValueError("not a list of names, separated by commas")
    return found


def pattern(given: str) -> re.Pattern[str]:
    try:
        return re.compile(text(given))
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "hr": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}


def duration_ms(given: str) -> int:
    """As in Spark: a number with a unit, or milliseconds."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", given.strip().lower())
    if match is None or (match[2] or "ms") not in UNITS_MS:
        raise ValueError("not a duration such as 30s or 15m")
    return int(match[1]) * UNITS_MS[match[2] or "ms"]


def size_bytes(given: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", given.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("not a size such as 64m")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]]


Numbers = dict[str, dict[int, int]]
"""A number for each partition of topics."""


def numbers(example: str, least: int) -> Callable[[str], Numbers]:
    """JSON with a number per partition: offsets or timestamps."""

    def parse(given: str) -> Numbers:
        try:
            found = {
                topic: {int(index): int(number) for index, number in partitions.items()}
                for topic, partitions in json.loads(given).items()
                if not topic.startswith("@")  # the topic ids in a stream's offset
            }
        except (ValueError, TypeError, AttributeError):
            raise ValueError(f"not of the form {example}") from None
        for topic, partitions in found.items():
            for index, number in partitions.items():
                if number < least or index < 0:
                    raise ValueError(f"out of range for {topic}-{index}: {number}")
        return found

    return parse


def place(given: str) -> str | Numbers:
    """`earliest`, `latest`, or offsets by partition, where -2 and -1 stand for earliest and latest."""
    word = given.strip().lower()
    if word in ("earliest", "latest"):
        return word
    return numbers('earliest, latest or {"orders": {"0": 23, "1": -1}}', -2)(given)


def partitions(given: str) -> dict[str, tuple[int, ...]]:
    try:
        found = {topic: tuple(map(int, indexes)) for topic, indexes in json.loads(given).items()}
    except (ValueError, TypeError, AttributeError):
        raise ValueError('not of the form {"orders": [0, 1]}') from None
    if not any(found.values()) or any(index < 0 for indexes in found.values() for index in indexes):
        raise ValueError("without a valid partition")
    return found
