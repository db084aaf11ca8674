"""The nine types of settings: parse text into a Python value, and format it as Kafka does.

The rules are those of Kafka's parser, so that a file means the same to both: blanks around a value are ignored, numbers
are decimal, a list is split at commas. Where Python accepts more than Java (`1_000`, `inf`), Java's rule holds.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# The characters that Java's String.trim() removes: all up to the blank.
BLANKS = "".join(map(chr, range(33)))

DECIMAL = re.compile(r"[+-]?[0-9]+")
FLOATING = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class SettingType(IntEnum):
    """The type of a setting. The numbers are those of the wire protocol (DescribeConfigs)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INTEGER_BITS = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}

TYPE_DESCRIPTIONS = {
    SettingType.BOOLEAN: "true or false",
    SettingType.STRING: "a string",
    SettingType.INT: "a 32-bit integer",
    SettingType.SHORT: "a 16-bit integer",
    SettingType.LONG: "a 64-bit integer",
    SettingType.DOUBLE: "a number",
    SettingType.LIST: "a comma-separated list",
    SettingType.CLASS: "the name of a class",
    SettingType.PASSWORD: "a password",
}


class Secret:
    """A value that must not reach a log, an error message or a client."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


HIDDEN = "[hidden]"


class NotOfType(ValueError):
    """The text is not a value of the type."""


def parse(kind: SettingType, text: str) -> Any:
    """Parse `text` into a bool, int, float, str, tuple of str, or `Secret`."""
    trimmed = text.strip(BLANKS)
    match kind:
        case SettingType.STRING | SettingType.CLASS:
            return trimmed
        case SettingType.BOOLEAN:
            return _parse_boolean(trimmed)
        case SettingType.SHORT | SettingType.INT | SettingType.LONG:
            return _parse_integer(trimmed, INTEGER_BITS[kind])
        case SettingType.DOUBLE:
            if FLOATING.fullmatch(trimmed) is None:
                raise NotOfType(text)
            return float(trimmed)
        case SettingType.LIST:
            return tuple(item.strip(BLANKS) for item in trimmed.split(",")) if trimmed else ()
        case SettingType.PASSWORD:
            return Secret(trimmed)


def show(kind: SettingType, value: Any) -> str | None:
    """Format a value as Kafka does; None for a setting without a value."""
    if value is None:
        return None
    match kind:
        case SettingType.BOOLEAN:
            return "true" if value else "false"
        case SettingType.DOUBLE:
            return _show_double(value)
        case SettingType.LIST:
            return ",".join(value)
        case _:
            return str(value)


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise NotOfType(text)


def _parse_integer(text: str, bits: int) -> int:
    # The length is checked first, because int() takes quadratic time.
    if len(text) > 64 or DECIMAL.fullmatch(text) is None:
        raise NotOfType(text)
    value = int(text)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise NotOfType(text)
    return value


def _show_double(value: float) -> str:
    """Java's notation: 0.5, 1.0, 2.147483647E9, 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"
