"""Finds the error codes in a response.

A response has its error codes in different places: one for all, one for each topic, or one for each partition. Callers
that retry by code do not care, so this walks the whole message. It is for small or rare responses; produce and fetch
read their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from penstock.protocol.errors import ErrorCode


def error_codes(message: Any) -> Iterator[ErrorCode]:
    """Every error code in the message, outermost first within each branch."""
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, ErrorCode):
            yield value
        elif isinstance(value, list):
            for element in value:
                if not is_dataclass(element):
                    break
                yield from error_codes(element)
        elif is_dataclass(value):
            yield from error_codes(value)


def first_message(message: Any, code: ErrorCode) -> str | None:
    """The broker's message for the first error `code` that has one."""
    for field in fields(message):
        value = getattr(message, field.name)
        if value is code and (text := getattr(message, "error_message", None)):
            return str(text)
        for element in value if isinstance(value, list) else [value]:
            if not is_dataclass(element):
                break
            if text := first_message(element, code):
                return str(text)
    return None


def first_of(message: Any, codes: Collection[ErrorCode]) -> ErrorCode | None:
    """The first error code in the message that is one of these."""
    return next((code for code in error_codes(message) if code in codes), None)
