"""Kafka's deserializers by class name. Values are printed as Java prints them."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable

from penstock.cli.failures import Refusal

Show = Callable[[bytes], str]

SMALLEST_PLAIN = 1e-3  # below, Java uses scientific notation
LARGEST_PLAIN = 1e7


def find(name: str) -> Show:
    """By class name, with or without the package."""
    short = name.rpartition(".")[2]
    found = DESERIALIZERS.get(short)
    if found is None:
        raise Refusal(f"unknown deserializer {name}; known are {', '.join(DESERIALIZERS)}")
    return found


def show_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def show_double(number: float) -> str:
    """In Java's notation."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or SMALLEST_PLAIN <= abs(number) < LARGEST_PLAIN:
        return repr(number)
    digits, _, exponent = f"{number:e}".partition("e")
    for precision in range(17):  # the fewest digits that give this number
        digits, _, exponent = f"{number:.{precision}e}".partition("e")
        if float(f"{digits}e{exponent}") == number:
            break
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _number(code: str, size: int, kind: str) -> Show:
    def show(data: bytes) -> str:
        if len(data) != size:
            raise Refusal(f"{data!r} has {len(data)} bytes, but {kind} has {size}")
        (number,) = struct.unpack(code, data)
        return show_double(number) if isinstance(number, float) else str(number)

    return show


def _boolean(data: bytes) -> str:
    if data not in (b"\0", b"\1"):
        raise Refusal(f"{data!r} is not a boolean (one byte, 0 or 1)")
    return "true" if data == b"\1" else "false"


def _uuid(data: bytes) -> str:
    try:
        return str(uuid.UUID(data.decode("utf-8")))
    except ValueError:
        raise Refusal(f"{data!r} is not a UUID") from None


def _escaped(data: bytes) -> str:
    """Like `toString` of Kafka's `Bytes`."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02X}" for byte in data)


DESERIALIZERS: dict[str, Show] = {
    "StringDeserializer": show_text,
    "ByteArrayDeserializer": show_text,
    "BytesDeserializer": _escaped,
    "ShortDeserializer": _number(">h", 2, "a short"),
    "IntegerDeserializer": _number(">i", 4, "an integer"),
    "LongDeserializer": _number(">q", 8, "a long"),
    "FloatDeserializer": _number(">f", 4, "a float"),
    "DoubleDeserializer": _number(">d", 8, "a double"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
}
