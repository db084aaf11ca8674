"""Simulates a power cut: anything may follow the last acknowledged byte.

It touches only the active segment of a log, beyond what the broker acknowledged. It appends torn batches, zeroes and
garbage, cuts off or mangles unacknowledged batches, and empties or overwrites the segment's indexes. A log must
recover from all of this without losing an acknowledged record.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

BATCH_HEAD = struct.Struct(
    ">qiibIhi"
)  # base offset, length, epoch, magic, crc, attributes, last offset delta
LENGTH_BYTES = 12


def damage_tail(folder: Path, rng: random.Random, *, promised_end: int | None) -> str:
    """Damage one partition's folder; what was done. Without `promised_end`, written data is not touched."""
    log = max(folder.glob("*.log"), default=None)
    if log is None:
        return "nothing, there is no segment"
    done = [_damage_log(log, rng, promised_end)]
    for suffix in (".index", ".timeindex", ".txnindex"):
        index = log.with_suffix(suffix)
        if index.exists() and rng.random() < 0.3:
            done.append(_damage_index(index, rng))
    return ", ".join(done)


def _damage_log(log: Path, rng: random.Random, promised_end: int | None) -> str:
    kinds = ["zeroes", "garbage", "half a batch"]
    data = log.read_bytes()
    if promised_end is not None:
        free_from = _position_after(data, promised_end)
        if free_from < len(data):
            kinds += ["cut", "mangled"] * 2
    kind = rng.choice(kinds)
    if kind == "zeroes":
        data += bytes(rng.randint(1, 5_000))
    elif kind == "garbage":
        data += rng.randbytes(rng.randint(1, 5_000))
    elif kind == "half a batch":
        data += _half_a_batch(data, rng)
    elif kind == "cut":
        data = data[: rng.randint(free_from, len(data) - 1)]
    elif kind == "mangled":
        at = rng.randint(free_from, len(data) - 1)
        data = data[:at] + rng.randbytes(min(50, len(data) - at)) + data[at + 50 :]
    log.write_bytes(data)
    return kind


def _damage_index(index: Path, rng: random.Random) -> str:
    index.write_bytes(rng.choice([b"", bytes(100), rng.randbytes(rng.randint(1, 500))]))
    return f"{index.suffix[1:]} spoilt"


def _half_a_batch(data: bytes, rng: random.Random) -> bytes:
    """The beginning of a batch like the first one in the file."""
    if len(data) < LENGTH_BYTES + 1:
        return b"\x00"
    size = LENGTH_BYTES + struct.unpack_from(">i", data, 8)[0]
    return data[: rng.randint(1, max(1, min(size, len(data)) - 1))]


def _position_after(data: bytes, offset: int) -> int:
    """The position of the first batch at or after `offset`; everything before it is acknowledged."""
    position = 0
    while position + BATCH_HEAD.size <= len(data):
        base_offset, length, *_rest = BATCH_HEAD.unpack_from(data, position)
        if base_offset >= offset or length <= 0:
            break
        position += LENGTH_BYTES + length
    return min(position, len(data))


def recovery_point(log_directory: Path, partition: str) -> int:
    """The broker's recovery point: a working disk never loses anything below it."""
    checkpoint = log_directory / "recovery-point-offset-checkpoint"
    if not checkpoint.exists():
        return 0
    topic, _, number = partition.rpartition("-")
    for line in checkpoint.read_text().splitlines()[2:]:
        if line.rsplit(" ", 1)[0] == f"{topic} {number}":
            return int(line.rsplit(" ", 1)[1])
    return 0
