# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The kernel, compiled: `twin` in C, function by function.

It reads what strangers sent, so nothing is read before it is known to lie inside the buffer, and memory is taken only
for what is there. A buffer is held while it is read, so that its owner cannot resize it underneath.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from penstock.records._bytes cimport (
    load16, load32, load64, new_tuple, plain_bytes, put, store16, store32, store64
)
from penstock.records._record cimport RawRecord, read_bytes, read_record

from penstock.records.batch import BatchHeader, Compression, Record, RecordScan, TimestampType
from penstock.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedCompression, UnsupportedMagic


cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    object PyMemoryView_FromMemory(char* data, Py_ssize_t size, int flags)
    int PyBUF_READ


cdef enum:
    HEADER_BYTES = 61
    LENGTH_BYTES = 12
    LENGTH_AT = 8
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
    COMPRESSION_MASK = 0x07
    TIMESTAMP_TYPE_MASK = 0x08
    CODEC_MAX = 4
    MAGIC = 2


cdef object DECOMPRESSED_BYTES_DEFAULT = DECOMPRESSED_BYTES_MAX
cdef object EMPTY = ()


# Reading headers -----------------------------------------------------------------------------------------------------

cdef object make_header(const uint8_t* at):
    header = new_tuple(BatchHeader, 13)
    put(header, 0, <int64_t>load64(at))
    put(header, 1, <int64_t><int32_t>load32(at + LENGTH_AT) + LENGTH_BYTES)
    put(header, 2, <int32_t>load32(at + LEADER_EPOCH_AT))
    put(header, 3, <int>at[MAGIC_AT])
    put(header, 4, load32(at + CRC_AT))
    put(header, 5, <int16_t>load16(at + ATTRIBUTES_AT))
    put(header, 6, <int32_t>load32(at + LAST_OFFSET_DELTA_AT))
    put(header, 7, <int64_t>load64(at + BASE_TIMESTAMP_AT))
    put(header, 8, <int64_t>load64(at + MAX_TIMESTAMP_AT))
    put(header, 9, <int64_t>load64(at + PRODUCER_ID_AT))
    put(header, 10, <int16_t>load16(at + PRODUCER_EPOCH_AT))
    put(header, 11, <int32_t>load32(at + BASE_SEQUENCE_AT))
    put(header, 12, <int32_t>load32(at + RECORD_COUNT_AT))
    return header


cdef const uint8_t* header_at(Py_buffer* buffer, Py_ssize_t position) except NULL:
    """The header's first byte, once it is known that all 61 are there and of our format."""
    cdef const uint8_t* at
    if position < 0 or buffer.len - position < HEADER_BYTES:
        raise CorruptBatch(f"a batch at {position} does not fit a buffer of {buffer.len} bytes")
    at = <const uint8_t*>buffer.buf + position
    if at[MAGIC_AT] != MAGIC:
        raise UnsupportedMagic(f"format {at[MAGIC_AT]} at {position} is not batch format {MAGIC}")
    return at


cdef int64_t whole_size(const uint8_t* at, Py_buffer* buffer, Py_ssize_t position) except -1:
    """The batch's size, once it is known to lie inside the buffer and to have a codec that exists."""
    cdef int64_t size = <int64_t><int32_t>load32(at + LENGTH_AT) + LENGTH_BYTES
    if size < HEADER_BYTES or size > buffer.len - position:
        raise CorruptBatch(f"the batch at {position} claims {size} of {buffer.len - position} bytes")
    cdef int codec = load16(at + ATTRIBUTES_AT) & COMPRESSION_MASK
    if codec > CODEC_MAX:
        raise UnsupportedCompression(f"there is no codec {codec}")
    return size


def read_header(view, Py_ssize_t position=0):
    cdef Py_buffer buffer
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        return make_header(header_at(&buffer, position))
    finally:
        PyBuffer_Release(&buffer)


def read_headers(view):
    cdef Py_buffer buffer
    cdef Py_ssize_t position = 0
    cdef const uint8_t* at
    cdef int64_t size
    cdef list headers = []
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        while buffer.len - position >= HEADER_BYTES:
            at = header_at(&buffer, position)
            size = <int64_t><int32_t>load32(at + LENGTH_AT) + LENGTH_BYTES
            if size < HEADER_BYTES:
                raise CorruptBatch(f"the batch at {position} claims {size} bytes")
            if size > buffer.len - position:
                break
            headers.append(make_header(at))
            position += size
        return headers
    finally:
        PyBuffer_Release(&buffer)


# Checking ------------------------------------------------------------------------------------------------------------

def check_batch(view, Py_ssize_t position=0):
    cdef Py_buffer buffer
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        return check_at(&buffer, position)
    finally:
        PyBuffer_Release(&buffer)


def check_batches(view):
    cdef Py_buffer buffer
    cdef Py_ssize_t position = 0
    cdef list headers = []
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        while position < buffer.len:
            headers.append(check_at(&buffer, position))
            position += <int32_t>load32(<const uint8_t*>buffer.buf + position + LENGTH_AT) + LENGTH_BYTES
        return headers
    finally:
        PyBuffer_Release(&buffer)


cdef object check_at(Py_buffer* buffer, Py_ssize_t position):
    cdef const uint8_t* at = header_at(buffer, position)
    cdef int64_t size = whole_size(at, buffer, position)
    cdef uint32_t crc = checksum(at + ATTRIBUTES_AT, size - ATTRIBUTES_AT)
    cdef uint32_t stored_crc = load32(at + CRC_AT)
    if crc != stored_crc:
        raise CorruptBatch(f"the batch at {position} has checksum {crc:#x}, its header says {stored_crc:#x}")
    cdef int32_t count = <int32_t>load32(at + RECORD_COUNT_AT)
    cdef int64_t last_offset_delta = <int32_t>load32(at + LAST_OFFSET_DELTA_AT)
    if count < 0 or last_offset_delta < count - 1 or last_offset_delta < 0:
        raise InvalidBatch(f"the batch at {position} has {count} records in {last_offset_delta + 1} offsets")
    if load16(at + ATTRIBUTES_AT) & COMPRESSION_MASK == 0:
        walk_records(at + HEADER_BYTES, at + size, count, position)
    return make_header(at)


cdef uint32_t checksum(const uint8_t* data, Py_ssize_t size) except? 0:
    return crc32c(PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ))


cdef int walk_records(const uint8_t* at, const uint8_t* end, int32_t count, Py_ssize_t position) except -1:
    cdef RawRecord record
    cdef int32_t index
    for index in range(count):
        if not read_record(&at, end, &record):
            raise_malformed(index, position)
    if at is not end:
        raise_surplus(count, position)
    return 0


cdef int raise_malformed(int32_t index, Py_ssize_t position) except -1:
    raise InvalidBatch(f"record {index} of the batch at {position} is malformed")


cdef int raise_surplus(int32_t count, Py_ssize_t position) except -1:
    raise InvalidBatch(f"the batch at {position} holds more than its {count} records")


# Reading records -----------------------------------------------------------------------------------------------------

cdef class BatchReader:
    """Steps through the records of one batch; owns its bytes, decompressed, while it lives."""

    cdef Py_buffer buffer
    cdef bint is_held
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef int32_t index
    cdef int32_t count
    cdef Py_ssize_t position
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_time
    cdef bint is_append_time
    cdef RawRecord record

    def __cinit__(self, view, Py_ssize_t position, limit_bytes):
        cdef const uint8_t* at
        cdef int64_t size
        cdef int codec
        PyObject_GetBuffer(view, &self.buffer, PyBUF_SIMPLE)
        self.is_held = True
        at = header_at(&self.buffer, position)
        size = whole_size(at, &self.buffer, position)
        codec = load16(at + ATTRIBUTES_AT) & COMPRESSION_MASK
        self.position = position
        self.count = <int32_t>load32(at + RECORD_COUNT_AT)
        self.base_offset = <int64_t>load64(at)
        self.base_timestamp = <int64_t>load64(at + BASE_TIMESTAMP_AT)
        self.append_time = <int64_t>load64(at + MAX_TIMESTAMP_AT)
        self.is_append_time = load16(at + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK != 0
        self.at = at + HEADER_BYTES
        self.end = at + size
        if codec != 0:
            self.take_decompressed(decompress(
                Compression(codec),
                PyMemoryView_FromMemory(<char*>self.at, self.end - self.at, PyBUF_READ),
                limit_bytes=limit_bytes,
            ))

    cdef int take_decompressed(self, payload) except -1:
        PyBuffer_Release(&self.buffer)
        self.is_held = False
        PyObject_GetBuffer(payload, &self.buffer, PyBUF_SIMPLE)
        self.is_held = True
        self.at = <const uint8_t*>self.buffer.buf
        self.end = self.at + self.buffer.len
        return 0

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)

    cdef bint step(self) except -1:
        """Read the next record into `self.record`; False after the last."""
        if self.index >= self.count:
            if self.at is not self.end:
                raise_surplus(self.count, self.position)
            return False
        if not read_record(&self.at, self.end, &self.record):
            self.count = 0
            self.at = self.end
            raise_malformed(self.index, self.position)
        self.index += 1
        return True

    cdef inline int64_t offset(self) noexcept:
        return <int64_t>(<uint64_t>self.base_offset + <uint64_t><int64_t>self.record.offset_delta)

    cdef inline int64_t timestamp(self) noexcept:
        if self.is_append_time:
            return self.append_time
        return <int64_t>(<uint64_t>self.base_timestamp + <uint64_t>self.record.timestamp_delta)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.step():
            raise StopIteration
        record = new_tuple(Record, 5)
        put(record, 0, self.offset())
        put(record, 1, self.timestamp())
        put(record, 2, make_bytes(self.record.key, self.record.key_size))
        put(record, 3, make_bytes(self.record.value, self.record.value_size))
        put(record, 4, EMPTY if self.record.header_count == 0 else make_headers(&self.record, self.end))
        return record


cdef inline object make_bytes(const uint8_t* data, int32_t size):
    if data is NULL:
        return None
    return PyBytes_FromStringAndSize(<const char*>data, size)


cdef object make_headers(RawRecord* record, const uint8_t* end):
    cdef const uint8_t* at = record.headers
    cdef const uint8_t* name
    cdef const uint8_t* content
    cdef int32_t name_size, content_size, index
    cdef list headers = []
    for index in range(record.header_count):
        at = read_bytes(at, end, &name, &name_size)
        if at is not NULL:
            at = read_bytes(at, end, &content, &content_size)
        if at is NULL:
            raise InvalidBatch("headers changed while they were read")
        headers.append((
            PyUnicode_DecodeUTF8(<char*>name, name_size, "replace"),
            make_bytes(content, content_size),
        ))
    return tuple(headers)


def iterate_records(view, Py_ssize_t position=0, *, limit_bytes=DECOMPRESSED_BYTES_DEFAULT):
    return BatchReader(view, position, limit_bytes)


def read_payload(view, Py_ssize_t position=0, *, limit_bytes=DECOMPRESSED_BYTES_DEFAULT):
    cdef Py_buffer buffer
    cdef const uint8_t* at
    cdef int64_t size
    cdef int codec
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        at = header_at(&buffer, position)
        size = whole_size(at, &buffer, position)
        codec = load16(at + ATTRIBUTES_AT) & COMPRESSION_MASK
    finally:
        PyBuffer_Release(&buffer)
    payload = memoryview(view)[position + HEADER_BYTES : position + size]
    if codec == 0:
        return payload
    return memoryview(decompress(Compression(codec), payload, limit_bytes=limit_bytes))


def scan_records(view, Py_ssize_t position=0, *, limit_bytes=DECOMPRESSED_BYTES_DEFAULT):
    cdef BatchReader reader = BatchReader(view, position, limit_bytes)
    cdef int64_t smallest = INT64_MAX
    cdef int64_t largest = INT64_MIN
    cdef int64_t timestamp
    cdef Py_ssize_t keyless_count = 0
    cdef bint is_consecutive = True
    while reader.step():
        timestamp = reader.timestamp()
        smallest = min(smallest, timestamp)
        largest = max(largest, timestamp)
        keyless_count += reader.record.key is NULL
        is_consecutive = is_consecutive and reader.record.offset_delta == reader.index - 1
    if reader.index == 0:
        smallest = largest = reader.append_time
    return RecordScan(smallest, largest, keyless_count, is_consecutive)


def has_record_without_key(view, Py_ssize_t position=0, *, limit_bytes=DECOMPRESSED_BYTES_DEFAULT):
    cdef BatchReader reader = BatchReader(view, position, limit_bytes)
    cdef bint is_found = False
    while reader.step():
        is_found = is_found or reader.record.key is NULL
    return is_found


# Building ------------------------------------------------------------------------------------------------------------

cdef inline Py_ssize_t varint_size(int64_t value) noexcept:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef Py_ssize_t size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline Py_ssize_t field_size(object data, const char** start) noexcept:
    """The bytes that a key, a value or a header's value takes, and where its own bytes start."""
    if data is None:
        start[0] = NULL
        return 1
    start[0] = PyBytes_AS_STRING(data)
    return varint_size(PyBytes_GET_SIZE(data)) + PyBytes_GET_SIZE(data)


cdef class BatchWriter:
    """A batch that grows record by record, behind the room that is left for its header."""

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
        cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
        while raw >= 0x80:
            self.at[0] = <uint8_t>(raw | 0x80)
            self.at += 1
            raw >>= 7
        self.at[0] = <uint8_t>raw
        self.at += 1

    cdef inline void put_bytes(self, const char* data, Py_ssize_t size) noexcept:
        if data is NULL:
            self.put_varint(-1)
        else:
            self.put_varint(size)
            memcpy(self.at, data, size)
            self.at += size

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
        self.at[0] = 0  # attributes, of which none is defined
        self.at += 1
        self.put_varint(timestamp_delta)
        self.put_varint(offset_delta)
        self.put_bytes(key_start, 0 if key is None else PyBytes_GET_SIZE(key))
        self.put_bytes(value_start, 0 if value is None else PyBytes_GET_SIZE(value))
        self.put_varint(header_count)
        if header_count:
            self.put_headers(headers)
        return 0

    cdef int put_headers(self, list headers) except -1:
        cdef Py_ssize_t size
        cdef const char* start
        for name, content in headers:
            start = PyUnicode_AsUTF8AndSize(name, &size)
            self.put_bytes(start, size)
            field_size(content, &start)
            self.put_bytes(start, 0 if content is None else PyBytes_GET_SIZE(content))
        return 0

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
    cdef BatchWriter writer = BatchWriter()
    cdef int64_t base = 0 if base_offset is None else base_offset
    cdef bint is_base_known = base_offset is not None
    cdef int64_t offset, timestamp, offset_delta, last_delta = -1
    cdef int64_t base_timestamp = 0
    cdef int64_t max_timestamp = INT64_MIN
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t first
    for record in records:
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
            raise ValueError(f"offsets of a batch must rise within 2**31: {offset_delta} after {last_delta}")
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
        out = compressed(out, compression, level)
    cdef uint8_t* at = <uint8_t*>PyByteArray_AS_STRING(out)
    cdef Py_ssize_t size = len(out)
    store64(at, base)
    store32(at + LENGTH_AT, size - LENGTH_BYTES)
    store32(at + LEADER_EPOCH_AT, leader_epoch)
    at[MAGIC_AT] = MAGIC
    store16(at + ATTRIBUTES_AT, <int>compression | <int>timestamp_type << 3 | is_transactional << 4 | is_control << 5)
    store32(at + LAST_OFFSET_DELTA_AT, last_delta)
    store64(at + BASE_TIMESTAMP_AT, base_timestamp)
    store64(at + MAX_TIMESTAMP_AT, max_timestamp)
    store64(at + PRODUCER_ID_AT, producer_id)
    store16(at + PRODUCER_EPOCH_AT, producer_epoch)
    store32(at + BASE_SEQUENCE_AT, base_sequence)
    store32(at + RECORD_COUNT_AT, count)
    store32(at + CRC_AT, checksum(at + ATTRIBUTES_AT, size - ATTRIBUTES_AT))
    return out


cdef object compressed(object out, object codec, object level):
    with memoryview(out) as view:
        payload = compress(codec, view[HEADER_BYTES:], level)
    result = bytearray(HEADER_BYTES)
    result += payload
    if len(result) > INT32_MAX:
        raise ValueError(f"a batch of {len(result)} bytes is too large")
    return result
