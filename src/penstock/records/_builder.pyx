# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Builds record batches.

The size of a record is computed before it is written, so that each record is written once, into reserved memory.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from penstock.records._bytes cimport plain_bytes, store16, store32, store64
from penstock.records._layout cimport (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
)
from penstock.records._writing cimport field_size, varint_size, write_field, write_varint

from penstock.records.batch import Compression, RecordRows, TimestampType
from penstock.records.compression import compress
from penstock.records.crc import crc32c


cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    object PyMemoryView_FromMemory(char* data, Py_ssize_t size, int flags)
    int PyBUF_READ


cdef class BatchWriter:
    """A batch that grows record by record, after the space for its header."""

    cdef object out
    cdef uint8_t* at
    cdef uint8_t* end

    def __cinit__(self):
        self.out = PyByteArray_FromStringAndSize(NULL, 512)
        self.at = <uint8_t*>PyByteArray_AS_STRING(self.out) + HEADER_BYTES
        self.end = <uint8_t*>PyByteArray_AS_STRING(self.out) + 512

    cdef int reserve(self, Py_ssize_t size) except -1:
        """Make sure that `size` more bytes can be written."""
        cdef Py_ssize_t used, wanted
        if self.end - self.at >= size:
            return 0
        used = self.at - <uint8_t*>PyByteArray_AS_STRING(self.out)
        if used + size > INT32_MAX:
            raise ValueError(f"a batch of {used + size} bytes is too large")
        wanted = max(used + size, 2 * used)
        PyByteArray_Resize(self.out, wanted)
        self.at = <uint8_t*>PyByteArray_AS_STRING(self.out) + used
        self.end = <uint8_t*>PyByteArray_AS_STRING(self.out) + wanted
        return 0

    cdef inline void put_varint(self, int64_t value) noexcept:
        self.at = write_varint(self.at, value)

    cdef inline void put_bytes(self, const char* data, Py_ssize_t size) noexcept:
        self.at = write_field(self.at, data, size)

    cdef int put_record(
        self, int64_t timestamp_delta, int32_t offset_delta, object key, object value, object headers
    ) except -1:
        """`key` and `value` are bytes or None."""
        cdef const char* key_start
        cdef const char* value_start
        cdef Py_ssize_t header_count = len(headers)
        cdef Py_ssize_t size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
        size += field_size(key, &key_start) + field_size(value, &value_start) + varint_size(header_count)
        if header_count:
            headers = [(name, plain_bytes(content)) for name, content in headers]
            size += headers_size(headers)
        self.reserve(5 + size)
        self.put_varint(size)
        self.at[0] = 0  # attributes: none is defined
        self.at += 1
        self.put_varint(timestamp_delta)
        self.put_varint(offset_delta)
        self.put_bytes(key_start, 0 if key is None else PyBytes_GET_SIZE(key))
        self.put_bytes(value_start, 0 if value is None else PyBytes_GET_SIZE(value))
        self.put_varint(header_count)
        if header_count:
            self.at = write_headers(self.at, headers)
        return 0

    cdef int put_rows(self, int64_t timestamp_delta, int64_t offset_delta, object rows) except -1:
        """All records of `RecordRows`, the first of them at `offset_delta`."""
        cdef bytes key_start = rows.key_start
        cdef bytes value_start = rows.value_start
        cdef bytes value_end = rows.value_end
        cdef list key_numbers = rows.key_numbers
        cdef list value_longs = rows.value_longs
        cdef list value_ints = rows.value_ints
        cdef Py_ssize_t count = len(key_numbers)
        cdef Py_ssize_t key_size = len(key_start) + 4
        cdef Py_ssize_t value_size = len(value_start) + 12 + len(value_end)
        cdef Py_ssize_t same_size = 1 + varint_size(timestamp_delta) + varint_size(key_size) + key_size
        cdef Py_ssize_t index, size
        cdef int32_t number
        cdef int64_t value_long
        cdef int32_t value_int
        if count != len(value_longs) or count != len(value_ints):
            raise ValueError("columns of rows must be of one length")
        same_size += varint_size(value_size) + value_size + 1
        for index in range(count):
            number, value_long, value_int = key_numbers[index], value_longs[index], value_ints[index]
            size = same_size + varint_size(offset_delta + index)
            self.reserve(5 + size)
            self.put_varint(size)
            self.at[0] = 0  # attributes: none is defined
            self.at += 1
            self.put_varint(timestamp_delta)
            self.put_varint(offset_delta + index)
            self.put_varint(key_size)
            self.put_plain(key_start)
            store32(self.at, number)
            self.at += 4
            self.put_varint(value_size)
            self.put_plain(value_start)
            store64(self.at, value_long)
            store32(self.at + 8, value_int)
            self.at += 12
            self.put_plain(value_end)
            self.put_varint(0)  # headers
        return 0

    cdef inline void put_plain(self, bytes data) noexcept:
        memcpy(self.at, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        self.at += PyBytes_GET_SIZE(data)

    cdef object finish(self):
        PyByteArray_Resize(self.out, self.at - <uint8_t*>PyByteArray_AS_STRING(self.out))
        return self.out


cdef Py_ssize_t headers_size(list headers) except -1:
    cdef Py_ssize_t size, total = 0
    cdef const char* start
    for name, content in headers:
        PyUnicode_AsUTF8AndSize(name, &size)
        total += varint_size(size) + size + field_size(content, &start)
    return total


cdef uint8_t* write_headers(uint8_t* at, list headers) except NULL:
    """Pairs of text and bytes or None, whose count has been written."""
    cdef Py_ssize_t size
    cdef const char* start
    for name, content in headers:
        start = PyUnicode_AsUTF8AndSize(name, &size)
        at = write_field(at, start, size)
        field_size(content, &start)
        at = write_field(at, start, 0 if content is None else PyBytes_GET_SIZE(content))
    return at


cdef int write_batch_header(
    uint8_t* at,
    Py_ssize_t size,
    int64_t base_offset,
    int32_t leader_epoch,
    int attributes,
    int32_t last_delta,
    int64_t base_timestamp,
    int64_t max_timestamp,
    int64_t producer_id,
    int16_t producer_epoch,
    int32_t base_sequence,
    int32_t count,
) except -1:
    """Write the header of a batch of `size` bytes, whose records are already written, and its CRC."""
    store64(at, base_offset)
    store32(at + LENGTH_AT, size - LENGTH_BYTES)
    store32(at + LEADER_EPOCH_AT, leader_epoch)
    at[MAGIC_AT] = MAGIC
    store16(at + ATTRIBUTES_AT, attributes)
    store32(at + LAST_OFFSET_DELTA_AT, last_delta)
    store64(at + BASE_TIMESTAMP_AT, base_timestamp)
    store64(at + MAX_TIMESTAMP_AT, max_timestamp)
    store64(at + PRODUCER_ID_AT, producer_id)
    store16(at + PRODUCER_EPOCH_AT, producer_epoch)
    store32(at + BASE_SEQUENCE_AT, base_sequence)
    store32(at + RECORD_COUNT_AT, count)
    store32(at + CRC_AT, <int64_t>crc32c(
        PyMemoryView_FromMemory(<char*>at + ATTRIBUTES_AT, size - ATTRIBUTES_AT, PyBUF_READ)
    ))
    return 0


def build_batch(
    records,
    *,
    base_offset=None,
    compression=Compression.NONE,
    level=None,
    timestamp_type=TimestampType.CREATE_TIME,
    int64_t producer_id=-1,
    int16_t producer_epoch=-1,
    int32_t base_sequence=-1,
    bint is_transactional=False,
    bint is_control=False,
    int32_t leader_epoch=-1,
):
    """A batch of `records`, at least one.

    A tuple `(timestamp, key, value, headers)` gets the next offset, a `Record` keeps its own, and `RecordRows` are
    many records at once. The base offset defaults to that of the first record, or 0. The result is writable, so that a
    log can assign offsets.
    """
    cdef BatchWriter writer = BatchWriter()
    cdef int64_t base = 0 if base_offset is None else base_offset
    cdef bint is_base_known = base_offset is not None
    cdef int64_t offset, timestamp, offset_delta, last_delta = -1
    cdef int64_t base_timestamp = 0
    cdef int64_t max_timestamp = INT64_MIN
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t row_count
    cdef Py_ssize_t first
    for record in records:
        if type(record) is RecordRows:
            row_count = len(record.key_numbers)
            if row_count > INT32_MAX - last_delta:
                raise ValueError("offsets of a batch must rise, and stay within 2**31 of the first")
            timestamp = record.timestamp
            if count == 0:
                base_timestamp = timestamp
            if row_count > 0:
                max_timestamp = max(max_timestamp, timestamp)
            writer.put_rows(<int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp), last_delta + 1, record)
            last_delta += row_count
            count += row_count
            continue
        if not PyTuple_Check(record):
            record = tuple(record)
        first = PyTuple_GET_SIZE(record) - 4
        offset_delta = last_delta + 1
        if first == 1:
            offset = <object>PyTuple_GET_ITEM(record, 0)
            if not is_base_known:
                base = offset
                is_base_known = True
            offset_delta = offset - base if offset >= base else -1
        elif first != 0:
            raise ValueError(f"a record has 4 fields, or 5 with its offset, not {first + 4}")
        if offset_delta <= last_delta or offset_delta > INT32_MAX:
            raise ValueError("offsets of a batch must rise, and stay within 2**31 of the first")
        last_delta = offset_delta
        timestamp = <object>PyTuple_GET_ITEM(record, first)
        if count == 0:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        writer.put_record(
            <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp),
            <int32_t>offset_delta,
            plain_bytes(<object>PyTuple_GET_ITEM(record, first + 1)),
            plain_bytes(<object>PyTuple_GET_ITEM(record, first + 2)),
            <object>PyTuple_GET_ITEM(record, first + 3),
        )
        count += 1
    if count == 0:
        raise ValueError("a batch has one record at least")
    out = writer.finish()
    if compression:
        with memoryview(out) as view:
            out = compressed(view, compression, level)
    write_batch_header(
        <uint8_t*>PyByteArray_AS_STRING(out),
        len(out),
        base,
        leader_epoch,
        <int>compression | <int>timestamp_type << 3 | is_transactional << 4 | is_control << 5,
        <int32_t>last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        <int32_t>count,
    )
    return out


cdef object compressed(object view, object codec, object level):
    """Space for a header, followed by the compressed records of `view`, which also starts with space for a header."""
    payload = compress(codec, view[HEADER_BYTES:], level)
    result = bytearray(HEADER_BYTES)
    result += payload
    if len(result) > INT32_MAX:
        raise ValueError(f"a batch of {len(result)} bytes is too large")
    return result
