"""Records that every producer writes and every consumer reads in compatibility tests.

Programs outside this process, such as the Java client, exchange them as text: one line per record, tab-separated,
base64.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

Headers = tuple[tuple[str, bytes | None], ...]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NULL = "-"  # never a base64 text


@dataclass(frozen=True, slots=True)
class Sample:
    """One record. What a client cannot write or read is None (timestamp) or empty (headers)."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    offset: int = -1


def samples() -> list[Sample]:
    """Records with what clients get wrong: nulls, empty values, headers, more than one compressed block."""
    start_ms = (int(time.time()) - 3600) * 1000  # an hour ago, so that no retention deletes it
    return [_sample(index, start_ms + 10 * index) for index in range(60)]


def _sample(index: int, timestamp_ms: int) -> Sample:
    key = None if index % 7 == 0 else f"key-{index}".encode()
    value: bytes | None = f"value {index}: Wasser fließt durch die Röhre, 水は低きに流れる. ".encode() * (
        1 + index % 5
    )
    if index % 11 == 5 and key is not None:  # some clients reject empty records
        value = None
    elif index % 13 == 4:
        value = b""
    elif index == 30:
        value = b"".join(
            b"%06d, " % number for number in range(12_500)
        )  # 100 kB: several blocks of any codec
    headers: Headers = ()
    if index % 3 == 0:
        headers = (("trace", b"%08x" % index), ("place", "Zürich".encode()))
    return Sample(key, value, headers, timestamp_ms)


def without_headers(sample: Sample) -> Sample:
    return replace(sample, headers=())


def without_timestamp(sample: Sample) -> Sample:
    return replace(sample, timestamp_ms=None)


def to_lines(records: Iterable[Sample]) -> str:
    return "".join(f"{_to_line(record)}\n" for record in records)


def from_lines(text: str) -> list[Sample]:
    return [_from_line(line) for line in text.splitlines() if line]


def _to_line(record: Sample) -> str:
    headers = ",".join(f"{name}={_encode(value)}" for name, value in record.headers)
    timestamp = NULL if record.timestamp_ms is None else str(record.timestamp_ms)
    return "\t".join([str(record.offset), timestamp, _encode(record.key), _encode(record.value), headers])


def _from_line(line: str) -> Sample:
    offset, timestamp, key, value, headers = line.split("\t")
    pairs = (part.split("=", 1) for part in headers.split(",") if part)
    return Sample(
        offset=int(offset),
        timestamp_ms=None if timestamp == NULL else int(timestamp),
        key=_decode(key),
        value=_decode(value),
        headers=tuple((name, _decode(value)) for name, value in pairs),
    )


def _encode(data: bytes | None) -> str:
    return NULL if data is None else base64.b64encode(data).decode()


def _decode(text: str) -> bytes | None:
    return None if text == NULL else base64.b64decode(text)
