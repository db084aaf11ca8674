"""The compaction of batches agrees with the plain reference, on good input, on damaged input and on noise."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.records import batches as reference
from oracle.records import compaction as oracle
from penstock.records import kernel
from penstock.records._compaction import checksums, hash_of
from penstock.records.batch import BatchHeader, Compression, NewRecord, Record, TimestampType
from penstock.records.compaction import SLOT_BYTES, BatchFilter, Decision, OffsetMap, add_batches
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, InvalidBatch, RecordsError, UnsupportedMagic
from strategies.records import CODECS, HEADERS, damaged_batches

EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "200"))
HASH_KEY = bytes(range(16))
NOW_MS = 1_800_000_000_000
DECISIONS = st.builds(Decision, st.booleans(), st.booleans(), st.booleans())
KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"c", b"a key of more than eight bytes"])
VALUES = st.none() | st.sampled_from([b"", b"1", bytes(200)])
TIMESTAMPS = st.integers(NOW_MS - 100_000, NOW_MS) | st.sampled_from([-1, 0, 2**62, -(2**62)])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches with rising offsets and gaps; some have been compacted before."""
    data = bytearray()
    offset = draw(st.integers(0, 50))
    for _ in range(draw(st.integers(1, 8))):
        records = []
        base_offset = offset
        for timestamp, key, value, headers in draw(
            st.lists(st.tuples(TIMESTAMPS, KEYS, VALUES, HEADERS), min_size=1, max_size=5)
        ):
            offset += draw(st.sampled_from([0, 0, 0, 3]))
            records.append(Record(offset, timestamp, key, value, headers))
            offset += 1
        data += kernel.build_batch(
            records,
            base_offset=base_offset,
            compression=draw(st.just(Compression.NONE) | CODECS),
            timestamp_type=draw(st.sampled_from(TimestampType)),
            producer_id=draw(st.integers(-1, 3)),
            producer_epoch=draw(st.integers(-1, 3)),
            base_sequence=draw(st.integers(-1, 3)),
            is_transactional=draw(st.booleans()),
            is_control=draw(st.booleans()),
            leader_epoch=draw(st.integers(0, 3)),
        )
        offset += draw(st.sampled_from([0, 0, 3]))
    return bytes(data)


class Decider:
    """Decides on batches by their offset, in any way."""

    def __init__(self, decisions: list[Decision]) -> None:
        self.decisions = decisions
        self.seen: list[BatchHeader] = []

    def decide(self, header: BatchHeader, batch: memoryview) -> Decision:
        assert kernel.read_header(batch) == header
        assert len(batch) == header.size_bytes
        self.seen.append(header)
        return self.decisions[header.base_offset % len(self.decisions)]


def all_stay(header: BatchHeader, batch: memoryview) -> Decision:
    return Decision(False, False, False)


def make_map(capacity: int = 1000) -> OffsetMap:
    """A map for this many keys, half empty when it is full."""
    return OffsetMap(2 * SLOT_BYTES * capacity, hash_key=HASH_KEY, load_factor=0.5)


def make_filter(offsets: OffsetMap, **changes: Any) -> BatchFilter:
    options: dict[str, Any] = {
        "now_ms": NOW_MS,
        "delete_retention_ms": 1000,
        "kept_offsets": (),
        "index_interval_bytes": 100,
    }
    return BatchFilter(offsets, **{**options, **changes})


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    data=logs(),
    decisions=st.lists(DECISIONS, min_size=1, max_size=4),
    start_offset=st.integers(0, 60),
    capacity=st.integers(1, 6),
    kept_offsets=st.sets(st.integers(0, 100), max_size=30),
    times=st.tuples(st.integers(NOW_MS - 5000, NOW_MS + 5000), st.integers(0, 2000)),
)
def test_the_same_keys_are_found_and_the_same_batches_are_written_twice(
    data: bytes,
    decisions: list[Decision],
    start_offset: int,
    capacity: int,
    kept_offsets: set[int],
    times: tuple[int, int],
) -> None:
    """The second pass reads the result of the first: batches with delete horizons, gaps and without records."""
    now_ms, delete_retention_ms = times
    for _ in range(2):
        offsets, expected = make_map(capacity), oracle.Offsets(capacity)
        decider, reference_decider = Decider(decisions), Decider(decisions)

        progress = add_batches(offsets, data, position=0, start_offset=start_offset, decide=decider.decide)
        is_complete = expected.add(data, start_offset=start_offset, decide=reference_decider.decide)

        assert progress.is_full is not is_complete
        assert offsets.latest_offset == expected.latest_offset
        assert len(offsets) == len(expected.last)
        assert all(offsets.get(key) == offset for key, offset in expected.last.items())
        assert decider.seen == reference_decider.seen

        batches = make_filter(
            offsets, now_ms=now_ms, delete_retention_ms=delete_retention_ms, kept_offsets=kept_offsets
        )
        assert batches.filter(data, position=0, decide=decider.decide) == len(data)
        output = batches.take_output()
        assert output == oracle.Filter(
            offsets=expected,
            now_ms=now_ms,
            delete_retention_ms=delete_retention_ms,
            kept_offsets=kept_offsets,
        ).filter(data, reference_decider.decide)
        assert decider.seen == reference_decider.seen
        check_totals(batches, data, output)
        data = output
        now_ms += 1500


def check_totals(batches: BatchFilter, data: bytes, output: bytes) -> None:
    headers = reference.check_batches(output)
    assert batches.bytes_read == len(data)
    assert batches.output_bytes == len(output)
    assert batches.records_read == sum(header.record_count for header in reference.read_headers(data))
    assert batches.records_retained == sum(header.record_count for header in headers)
    latest = max(headers, key=lambda header: header.max_timestamp, default=None)
    if latest is not None and latest.max_timestamp >= 0:
        assert batches.max_timestamp_ms == latest.max_timestamp
        assert batches.max_timestamp_offset == latest.last_offset
    places = {}
    position = 0
    for header in headers:
        places[position] = header.last_offset
        position += header.size_bytes
    entries = batches.index_entries
    assert all(places[at] == last_offset for at, last_offset, _, _ in entries)
    assert [at for at, _, _, _ in entries] == sorted({at for at, _, _, _ in entries})
    if len(output) > 4 * 400:
        assert entries


@settings(max_examples=EXAMPLES, deadline=None)
@given(damaged_batches() | st.binary(max_size=200), st.integers(0, 70))
def test_damaged_bytes_raise_or_are_left_for_more_of_them(data: bytes, position: int) -> None:
    offsets = make_map()
    for function in (
        lambda: add_batches(offsets, data, position=position, start_offset=0, decide=all_stay).position,
        lambda: make_filter(offsets).filter(data, position=position, decide=all_stay),
    ):
        try:
            end = function()
        except RecordsError:
            continue
        assert position <= max(end, position) <= max(len(data), position)
        assert len(data) - end <= 16 or end + 12 + int.from_bytes(data[end + 8 : end + 12], "big") > len(data)


def test_a_damaged_batch_is_not_given_a_valid_checksum() -> None:
    batch = kernel.build_batch([NewRecord(NOW_MS, b"k", b"v" * 50)])
    batch[-1] ^= 1

    with pytest.raises(CorruptBatch, match="checksum"):
        make_filter(make_map()).filter(batch, position=0, decide=all_stay)
    with pytest.raises(CorruptBatch, match="checksum"):
        add_batches(make_map(), batch, position=0, start_offset=0, decide=all_stay)


def test_an_unknown_format_and_a_wrong_count_are_refused() -> None:
    batch = kernel.build_batch([NewRecord(NOW_MS, b"k", b"v")])
    batch[16] = 3
    with pytest.raises(UnsupportedMagic):
        make_filter(make_map()).filter(batch, position=0, decide=all_stay)

    batch = kernel.build_batch([NewRecord(NOW_MS, b"k", b"v")])
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    batch[23:27] = (2**31 - 2).to_bytes(4, "big")
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    with pytest.raises(InvalidBatch, match="malformed"):
        make_filter(make_map()).filter(batch, position=0, decide=all_stay)
    with pytest.raises(InvalidBatch, match="malformed"):
        add_batches(make_map(), batch, position=0, start_offset=0, decide=all_stay)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_stay(magic: int) -> None:
    old = bytes(kernel.write_messages([Record(7, NOW_MS, b"k", b"old")], magic=magic))
    data = old + bytes(kernel.build_batch([NewRecord(NOW_MS, b"k", b"new")], base_offset=8))
    offsets = make_map()

    add_batches(offsets, data, position=0, start_offset=0, decide=all_stay)
    batches = make_filter(offsets)
    batches.filter(data, position=0, decide=all_stay)

    assert offsets.get(b"k") == offsets.latest_offset == 8
    assert batches.take_output() == data
    assert batches.max_timestamp_ms == NOW_MS


def test_a_map_that_is_full_stops_in_the_middle_of_a_batch() -> None:
    data = kernel.build_batch([NewRecord(NOW_MS, b"%d" % n, b"v") for n in range(10)], base_offset=100)
    offsets = make_map(4)

    progress = add_batches(offsets, data, position=0, start_offset=0, decide=all_stay)

    assert progress == (0, True)
    assert offsets.latest_offset == 103
    assert len(offsets) == offsets.capacity == 4


def test_many_keys_are_found_again_in_a_map_that_is_nearly_full() -> None:
    data = b"".join(
        kernel.build_batch(
            [NewRecord(NOW_MS, b"key-%d" % n, None) for n in range(start, start + 100)], base_offset=start
        )
        for start in range(0, 5000, 100)
    )
    offsets = OffsetMap(SLOT_BYTES * 5001, hash_key=HASH_KEY, load_factor=1.0)

    assert not add_batches(offsets, data, position=0, start_offset=0, decide=all_stay).is_full

    assert [offsets.get(b"key-%d" % n) for n in range(5000)] == list(range(5000))
    assert offsets.get(b"another") == -1


def test_keys_are_hashed_with_siphash_2_4() -> None:
    # The first vectors of SipHash's authors for 128 bits: the key is 0, 1, ..., 15; the input 0, 1, ..., n - 1.
    assert hash_of(b"", HASH_KEY).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert hash_of(b"\x00", HASH_KEY).hex() == "da87c1d86b99af44347659119b22fc45"
    assert hash_of(bytes(range(8)), HASH_KEY).hex() == "3b62a9ba6258f5610f83e264f31497b4"
    assert len({hash_of(bytes(size), HASH_KEY) for size in range(300)}) == 300


@given(st.binary(max_size=300))
def test_checksums_are_those_of_the_library(data: bytes) -> None:
    assert set(checksums(data)) == {crc32c(data)}


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="hash_key"):
        OffsetMap(1000, hash_key=b"short")
    with pytest.raises(TypeError):
        add_batches(None, b"", position=0, start_offset=0, decide=all_stay)  # type: ignore[arg-type]
    assert OffsetMap(0, hash_key=HASH_KEY).capacity == 0
