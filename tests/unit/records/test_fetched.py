"""The records of one partition in a fetch response, as messages and as columns."""

from __future__ import annotations

import datetime
import gc
import pickle
from typing import Any

import pytest

from penstock.records import consuming, kernel
from penstock.records.batch import Compression, NewRecord, Record, TimestampType
from penstock.records.columns import HeaderColumn
from penstock.records.consuming import FetchedRecords, Message, MessageStream
from penstock.records.control import end_transaction_batch
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedMagic
from penstock.records.message_set import write_message_set

RECORDS = [
    NewRecord(1_700_000_000_123, b"k0", b"v0", (("name", b"content"), ("none", None))),
    NewRecord(-1, None, b"v1", ()),
    NewRecord(1_700_000_000_125, b"k2", None, (("größe", b""),)),
]


def batch(base_offset: int, values: str, **fields: Any) -> bytes:
    """A batch of one record for every letter."""
    records = [(1_000 + index, None, value.encode(), ()) for index, value in enumerate(values)]
    return bytes(kernel.build_batch(records, base_offset=base_offset, **fields))


def transaction(base_offset: int, values: str, producer_id: int) -> bytes:
    return batch(
        base_offset, values, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )


def marker(base_offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    return bytes(
        end_transaction_batch(
            is_commit=is_commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=5_000,
            base_offset=base_offset,
        )
    )


def text(messages: Any) -> str:
    return "".join(message.value.decode() for message in messages)


def test_a_message_has_the_fields_of_the_record() -> None:
    data = kernel.build_batch(RECORDS, base_offset=40, leader_epoch=7)

    messages = list(FetchedRecords("orders", 3, data, 40))

    assert messages == [
        Message(
            "orders",
            3,
            40,
            1_700_000_000_123,
            TimestampType.CREATE_TIME,
            b"k0",
            b"v0",
            (("name", b"content"), ("none", None)),
            7,
        ),
        Message("orders", 3, 41, -1, key=None, value=b"v1", leader_epoch=7),
        Message("orders", 3, 42, 1_700_000_000_125, key=b"k2", headers=(("größe", b""),), leader_epoch=7),
    ]
    assert [message.time for message in messages] == [
        datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=datetime.UTC),
        None,
        datetime.datetime(2023, 11, 14, 22, 13, 20, 125_000, tzinfo=datetime.UTC),
    ]


def test_log_append_time_is_marked() -> None:
    data = batch(0, "ab", timestamp_type=TimestampType.LOG_APPEND_TIME)

    messages = FetchedRecords("orders", 0, data, 0).take(10)

    assert [(message.timestamp_ms, message.timestamp_type) for message in messages] == [
        (1_001, TimestampType.LOG_APPEND_TIME)
    ] * 2


def test_a_message_is_a_value() -> None:
    message = Message("orders", 0, 5, 1, value={"unhashable": []})

    assert message == Message("orders", 0, 5, 1, value={"unhashable": []})
    assert hash(message) == hash(Message("orders", 0, 5))
    assert message != Message("orders", 0, 6, 1, value={"unhashable": []})
    assert message != ("orders", 0, 5)
    assert repr(message) == (
        "Message(topic='orders', partition=0, offset=5, timestamp_ms=1,"
        " timestamp_type=<TimestampType.CREATE_TIME: 0>, key=None, value={'unhashable': []}, headers=(),"
        " leader_epoch=None)"
    )
    with pytest.raises(AttributeError):
        message.offset = 6  # type: ignore[misc]


def test_a_message_survives_pickling() -> None:
    message = next(iter(FetchedRecords("orders", 3, kernel.build_batch(RECORDS), 0)))

    copy = pickle.loads(pickle.dumps(message))

    assert repr(copy) == repr(message)
    assert type(copy) is consuming.Message


def test_a_timestamp_beyond_the_calendar_is_none() -> None:
    assert Message("orders", 0, 0, 2**62).time is None


def test_a_message_whose_value_refers_to_it_can_be_garbage_collected() -> None:
    class Value:
        message: Any = None

    data = batch(0, "a")
    (message,) = FetchedRecords("orders", 0, data, 0, decode_value=lambda _: Value()).take(1)
    assert gc.is_tracked(message)
    message.value.message = message


# Positions -------------------------------------------------------------------------------------------------------


def test_reading_begins_at_the_position_within_a_batch() -> None:
    records = FetchedRecords("orders", 0, batch(10, "abcd") + batch(14, "ef"), 12)

    assert text(records.take(100)) == "cdef"
    assert records.next_offset == 16
    assert records.is_exhausted


def test_at_most_the_requested_number_is_taken() -> None:
    records = FetchedRecords("orders", 0, batch(0, "abc") + batch(3, "def"), 0)

    taken = [(text(records.take(2)), records.next_offset) for _ in range(4)]

    assert taken == [("ab", 2), ("cd", 4), ("ef", 6), ("", 6)]


def test_the_next_fetch_offset_is_known_before_anything_is_read() -> None:
    data = (
        batch(0, "abc", leader_epoch=3) + batch(3, "de", leader_epoch=4) + batch(5, "f", leader_epoch=5)[:-1]
    )

    records = FetchedRecords("orders", 0, data, 1)

    assert (records.end_offset, records.end_epoch, records.size_bytes) == (5, 4, len(data))
    assert (records.next_offset, records.leader_epoch) == (1, -1)
    records.take(2)
    assert (records.next_offset, records.leader_epoch) == (3, 3)
    assert text(records) == "de"


def test_an_empty_response_does_not_move_the_position() -> None:
    records = FetchedRecords("orders", 0, b"", 9)

    assert (records.end_offset, records.take(5), records.next_offset) == (9, [], 9)


def test_offsets_removed_by_compaction_are_skipped() -> None:
    data = bytearray(kernel.build_batch([Record(0, 1, None, b"a", ()), Record(5, 1, None, b"b", ())]))
    records = FetchedRecords("orders", 0, data, 1)

    assert text(records) == "b"
    assert records.next_offset == 6


@pytest.mark.parametrize("codec", Compression)
def test_every_codec_is_read(codec: Compression) -> None:
    data = batch(0, "abc" * 50, compression=codec)

    assert text(FetchedRecords("orders", 0, data, 100)) == ("abc" * 50)[100:]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.ZSTD])
def test_old_formats_are_read(magic: int, codec: Compression) -> None:
    old = [Record(offset, 1_000, b"k", letter.encode(), ()) for offset, letter in enumerate("abcd")]
    data = bytes(write_message_set(old, magic=magic, codec=codec)) + batch(4, "ef")

    records = FetchedRecords("orders", 0, data, 1)
    assert records.end_offset == 6
    messages = records.take(100)

    assert text(messages) == "bcdef"
    assert messages[0] == Message(
        "orders", 0, 1, 1_000 if magic else -1, key=b"k", value=b"b", leader_epoch=None
    )
    assert messages[-1].leader_epoch is None  # built without one


# Transactions --------------------------------------------------------------------------------------------------------


def test_control_records_are_never_returned() -> None:
    data = transaction(0, "ab", 1) + marker(2, 1, is_commit=False) + batch(3, "c")

    records = FetchedRecords("orders", 0, data, 0)

    assert text(records) == "abc"


def test_the_offset_of_a_marker_at_the_end_is_skipped() -> None:
    records = FetchedRecords("orders", 0, transaction(0, "ab", 1) + marker(2, 1, is_commit=True), 0)

    assert text(records.take(10)) == "ab"
    assert records.next_offset == 3


def test_read_committed_skips_aborted_transactions() -> None:
    data = b"".join(
        (
            transaction(0, "ab", 1),
            transaction(2, "cd", 2),
            batch(4, "e"),
            marker(5, 1, is_commit=False),
            marker(6, 2, is_commit=True),
            transaction(7, "f", 1),
            marker(8, 1, is_commit=True),
            transaction(9, "g", 2),
            marker(10, 2, is_commit=False),
        )
    )

    records = FetchedRecords("orders", 0, data, 0, aborted=[(2, 9), (1, 0)])

    assert text(records) == "cdef"
    assert records.next_offset == 11


def test_a_transaction_that_was_compacted_away_does_not_hide_the_next_of_its_producer() -> None:
    data = marker(5, 1, is_commit=False) + transaction(6, "a", 1) + marker(7, 1, is_commit=True)

    assert text(FetchedRecords("orders", 0, data, 5, aborted=[(1, 3)])) == "a"


# Errors ----------------------------------------------------------------------------------------------------------


def test_a_damaged_batch_raises_when_it_is_reached_and_is_never_skipped() -> None:
    damaged = bytearray(batch(2, "cd"))
    damaged[-1] ^= 1
    records = FetchedRecords("orders", 0, batch(0, "ab") + damaged + batch(4, "e"), 0)

    assert text(records.take(100)) == "ab"
    for _ in range(2):
        with pytest.raises(CorruptBatch, match="checksum"):
            records.take(100)
    assert records.next_offset == 2
    assert not records.is_exhausted


def test_checksums_may_be_left_unchecked() -> None:
    damaged = bytearray(batch(0, "ab"))
    damaged[-2] ^= 1

    assert text(FetchedRecords("orders", 0, damaged, 0, checks_crcs=False)) == "ac"


def test_an_impossible_length_raises_after_the_records_before_it() -> None:
    liar = bytearray(batch(2, "c"))
    liar[8:12] = (20).to_bytes(4, "big")
    records = FetchedRecords("orders", 0, batch(0, "ab") + liar, 0)

    assert records.end_offset == 2
    assert text(records.take(100)) == "ab"
    with pytest.raises(CorruptBatch, match="claims"):
        records.take(100)


def test_an_unknown_format_is_refused() -> None:
    strange = bytearray(batch(0, "a"))
    strange[16] = 3

    with pytest.raises(UnsupportedMagic):
        FetchedRecords("orders", 0, strange, 0).take(1)


def test_a_malformed_record_ends_reading_before_it() -> None:
    liar = bytearray(batch(0, "ab"))
    liar[60] = 3  # one record more than there is
    records = FetchedRecords("orders", 0, liar, 0, checks_crcs=False)

    assert text(records.take(100)) == "ab"
    for _ in range(2):
        with pytest.raises(InvalidBatch):
            next(records)


def test_a_record_that_cannot_be_decoded_is_kept_and_raises_again() -> None:
    faults = [ValueError("no number")]

    def decode(data: bytes) -> int:
        if data == b"2" and faults:
            raise faults.pop()
        return int(data)

    records = FetchedRecords("orders", 0, batch(0, "123"), 0, decode_value=decode)

    assert next(records).value == 1
    with pytest.raises(ValueError, match="no number"):
        next(records)
    assert records.next_offset == 1
    assert [message.value for message in records.take(10)] == [2, 3]


def test_null_is_not_decoded() -> None:
    records = FetchedRecords("orders", 0, kernel.build_batch(RECORDS), 0, decode_key=str, decode_value=len)

    assert [(message.key, message.value) for message in records] == [
        ("b'k0'", 2),
        (None, 2),
        ("b'k2'", None),
    ]


def test_errors_are_explained() -> None:
    def explain(error: Exception, offset: int, data: bytes | None, is_key: bool) -> BaseException:
        return LookupError(type(error).__name__, offset, data, is_key)

    def explained(data: bytes, **options: Any) -> Any:
        records = FetchedRecords("orders", 0, data, 7, explain=explain, **options)
        with pytest.raises(LookupError) as raised:
            next(records)
        with pytest.raises(LookupError, match=str(raised.value.args[1])):
            next(records)
        return raised.value.args

    keyed = bytes(kernel.build_batch([(1, b"k", b"v", ())], base_offset=7))
    assert explained(keyed, decode_key=int) == ("ValueError", 7, b"k", True)
    assert explained(keyed, decode_value=int) == ("ValueError", 7, b"v", False)
    assert explained(keyed[:-1] + b"!") == ("CorruptBatch", 7, None, False)


# Columns -------------------------------------------------------------------------------------------------------------


def columns_of(records: Any, **options: Any) -> tuple[list[int], bool]:
    builder = consuming.ColumnBuilder(HeaderColumn.NONE)
    is_more = records.fill(builder, **options)
    return memoryview(builder.take().offset.data).cast("q").tolist(), is_more


def test_columns_are_filled_batch_by_batch() -> None:
    data = batch(0, "abc") + marker(3, 1, is_commit=True) + batch(4, "def") + batch(7, "gh")
    records = FetchedRecords("orders", 0, data, 1)

    assert columns_of(records, rows_max=4) == ([1, 2, 4, 5, 6], True)
    assert records.next_offset == 7
    assert columns_of(records, rows_max=4) == ([7, 8], False)
    assert records.next_offset == 9


class Growing(bytearray):
    """Memory like that of Arrow's pool."""

    growth_count = 0

    def resize(self, size: int, is_for_good: bool) -> None:
        if size > len(self):
            self.growth_count += 1
            self.extend(bytes(size - len(self)))
        else:
            del self[size:]


def test_memory_for_all_batches_of_a_response_is_reserved_at_once() -> None:
    made: list[Growing] = []

    def allocate(size: int) -> Growing:
        made.append(Growing(size))
        return made[-1]

    data = b"".join(batch(at, "abcdef" * 10) for at in range(0, 300, 60))
    builder = consuming.ColumnBuilder(HeaderColumn.NONE, allocate)

    assert not FetchedRecords("orders", 0, data, 0).fill(builder, rows_max=1000)

    columns = builder.take()
    assert columns.row_count == 300
    assert bytes(columns.value.data) == b"abcdef" * 50
    assert len(made) == 6
    assert not any(memory.growth_count for memory in made)


def test_memory_grows_beyond_what_was_reserved() -> None:
    """The size of compressed batches is not known before."""
    data = b"".join(batch(at, "abcdef" * 10, compression=Compression.GZIP) for at in range(0, 300, 60))
    records = FetchedRecords("orders", 0, data, 0)
    builder = consuming.ColumnBuilder(HeaderColumn.LIST, Growing)

    assert not records.fill(builder, rows_max=1000)

    columns = builder.take()
    assert bytes(columns.value.data) == b"abcdef" * 50
    assert memoryview(columns.value.offsets).cast("i").tolist() == list(range(301))
    assert memoryview(columns.offset.data).cast("q").tolist() == list(range(300))
    assert columns.key.null_count == 300
    assert not any(columns.key.validity)


def test_columns_end_before_end_offset() -> None:
    records = FetchedRecords("orders", 0, batch(0, "abc") + batch(3, "def"), 0)

    assert columns_of(records, rows_max=100, end_offset=2) == ([0, 1], False)
    assert records.next_offset == 2
    assert columns_of(records, rows_max=100, end_offset=3) == ([2], False)
    assert columns_of(records, rows_max=100, end_offset=4) == ([3], False)


def test_columns_continue_in_the_middle_of_a_batch() -> None:
    records = FetchedRecords("orders", 0, batch(0, "abc") + batch(3, "def"), 0)
    next(records)

    assert columns_of(records, rows_max=100) == ([1, 2, 3, 4, 5], False)


def test_columns_skip_aborted_records_and_read_old_formats() -> None:
    old = bytes(write_message_set([Record(0, 5, None, b"a", ()), Record(1, 6, None, b"b", ())], magic=1))
    data = old + transaction(2, "c", 1) + marker(3, 1, is_commit=False) + batch(4, "d")
    records = FetchedRecords("orders", 0, data, 1, aborted=[(1, 2)])

    assert columns_of(records, rows_max=100) == ([1, 4], False)


def test_damage_ends_columns() -> None:
    damaged = bytearray(batch(0, "ab"))
    damaged[-1] ^= 1
    records = FetchedRecords("orders", 0, damaged, 0)

    for _ in range(2):
        with pytest.raises(CorruptBatch):
            columns_of(records, rows_max=100)


# Streams -------------------------------------------------------------------------------------------------------------


def test_a_stream_refills_only_when_the_next_message_is_requested() -> None:
    first = FetchedRecords("orders", 0, batch(0, "abcd"), 0)
    second = FetchedRecords("orders", 1, batch(0, "ef"), 0)
    asked: list[int] = []
    answers = iter([(first, 3), (second, 5), (first, 5), None])

    def refill() -> tuple[FetchedRecords, int] | None:
        asked.append(len(seen))
        return next(answers)

    seen: list[str] = []
    for message in MessageStream(refill):
        seen += message.value.decode()

    assert "".join(seen) == "abcefd"
    assert asked == [0, 3, 5, 6]


def test_a_stream_continues_after_a_dropped_source() -> None:
    first = FetchedRecords("orders", 0, batch(0, "abcd") + batch(4, "e"), 0)
    answers = iter([(first, 100), (FetchedRecords("orders", 0, batch(9, "z"), 9), 1), None])
    stream = MessageStream(lambda: next(answers))

    next(stream)
    first.drop()

    assert text(stream) == "z"
    assert first.next_offset == 1
    assert first.is_exhausted


def test_a_decoder_may_take_from_the_stream_that_it_decodes_for() -> None:
    """The source was released while it was in use, and its memory with it."""
    sources = iter([batch(0, "a"), batch(1, "b"), batch(2, "c"), None])
    seen: list[str] = []

    def decode(value: bytes) -> bytes:
        if value == b"a":
            seen.extend(message.value.decode() for message in stream)
        return value

    def refill() -> Any:
        data = next(sources)
        return data and (FetchedRecords("orders", 0, data, 0, decode_value=decode), 10)

    stream = MessageStream(refill)

    assert next(stream).value == b"a"
    assert seen == ["b", "c"]
