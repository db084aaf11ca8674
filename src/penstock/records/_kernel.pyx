# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads and checks record batches.

The bytes come from clients and disks, so nothing is read before it is known to be inside the buffer, and no memory is
allocated for a count that the bytes cannot hold. A buffer is held while it is read, so that its owner cannot resize
it. Tests compare every function with a plain-Python reference, on good, damaged and random input.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock.records._bytes cimport load16, load32, load64, make_bytes, new_tuple, put
from penstock.records._layout cimport (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    COMPRESSION_MASK,
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
    TIMESTAMP_TYPE_MASK,
)
from penstock.records._record cimport RawRecord, read_bytes, read_record

from penstock.records.batch import BatchHeader, Compression, Record, RecordScan
from penstock.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedCompression, UnsupportedMagic


cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char* data, Py_ssize_t size, int flags)
    int PyBUF_READ


cdef enum:
    CODEC_MAX = 4
    SOUND = -1
    SURPLUS = -2
    LONG_WALK_BYTES = 65536  # from this size on it pays to let other threads run


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
    """The start of the header, after checking that all 61 bytes are there and have format v2."""
    cdef const uint8_t* at
    if position < 0 or buffer.len - position < HEADER_BYTES:
        raise CorruptBatch(f"a batch at {position} does not fit a buffer of {buffer.len} bytes")
    at = <const uint8_t*>buffer.buf + position
    if at[MAGIC_AT] != MAGIC:
        raise UnsupportedMagic(f"format {at[MAGIC_AT]} at {position} is not batch format {MAGIC}")
    return at


cdef int64_t whole_size(const uint8_t* at, Py_buffer* buffer, Py_ssize_t position) except -1:
    """The size of the batch, after checking that it is inside the buffer and its codec exists."""
    cdef int64_t size = <int64_t><int32_t>load32(at + LENGTH_AT) + LENGTH_BYTES
    if size < HEADER_BYTES or size > buffer.len - position:
        raise CorruptBatch(f"the batch at {position} claims {size} of {buffer.len - position} bytes")
    cdef int codec = load16(at + ATTRIBUTES_AT) & COMPRESSION_MASK
    if codec > CODEC_MAX:
        raise UnsupportedCompression(f"there is no codec {codec}")
    return size


def read_header(view, Py_ssize_t position=0):
    """The header at `position`. Checks only that the header is inside the buffer, not the records or the CRC."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        return make_header(header_at(&buffer, position))
    finally:
        PyBuffer_Release(&buffer)


def read_headers(view):
    """The headers of all whole batches, without other checks; an incomplete batch at the end is ignored."""
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

cdef struct Totals:
    int64_t min_timestamp
    int64_t max_timestamp
    Py_ssize_t keyless_count
    bint is_consecutive
    Py_ssize_t payload_bytes


def check_batch(view, Py_ssize_t position=0):
    """The header at `position`, after checking that the whole batch is there, undamaged and consistent.

    Uncompressed records are checked one by one; compressed records are not read.
    """
    cdef Py_buffer buffer
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        return check_at(&buffer, position, NULL)
    finally:
        PyBuffer_Release(&buffer)


def inspect_batch(view, Py_ssize_t position=0):
    """`check_batch` and `scan_records` in one pass; the scan is None if records are compressed."""
    cdef Py_buffer buffer
    cdef Totals totals
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        header = check_at(&buffer, position, &totals)
        if <int>header[5] & COMPRESSION_MASK:
            return header, None
        return header, make_scan(&totals)
    finally:
        PyBuffer_Release(&buffer)


def check_batches(view):
    """`check_batch` for a buffer that must hold only whole batches."""
    cdef Py_buffer buffer
    cdef Py_ssize_t position = 0
    cdef list headers = []
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        while position < buffer.len:
            headers.append(check_at(&buffer, position, NULL))
            position += <int32_t>load32(<const uint8_t*>buffer.buf + position + LENGTH_AT) + LENGTH_BYTES
        return headers
    finally:
        PyBuffer_Release(&buffer)


cdef object check_at(Py_buffer* buffer, Py_ssize_t position, Totals* totals):
    """The header of a valid batch; `totals`, if wanted, are those of its records, if they are not compressed."""
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
        if totals is NULL:
            walk(at + HEADER_BYTES, at + size, count, position)
        else:
            add_up(at, at + HEADER_BYTES, at + size, position, totals)
    return make_header(at)


cdef uint32_t checksum(const uint8_t* data, Py_ssize_t size) except? 0:
    return crc32c(PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ))


cdef int walk(const uint8_t* at, const uint8_t* end, int32_t count, Py_ssize_t position) except -1:
    """Check that exactly `count` well-formed records fill a batch."""
    cdef RawRecord record
    cdef int32_t index
    for index in range(count):
        if not read_record(&at, end, &record):
            raise_malformed(index, position)
    if at is not end:
        raise_surplus(count, position)
    return 0


cdef int add_up(
    const uint8_t* header, const uint8_t* at, const uint8_t* end, Py_ssize_t position, Totals* totals
) except -1:
    """`walk` over the records of a batch, wherever they are, and compute the totals of a scan."""
    cdef int32_t count = <int32_t>load32(header + RECORD_COUNT_AT)
    cdef uint64_t base_timestamp = load64(header + BASE_TIMESTAMP_AT)
    cdef int64_t largest = <int64_t>load64(header + MAX_TIMESTAMP_AT)
    cdef int32_t faulty
    totals.payload_bytes = end - at
    if end - at > LONG_WALK_BYTES:
        with nogil:
            faulty = add_up_records(at, end, count, base_timestamp, totals)
    else:
        faulty = add_up_records(at, end, count, base_timestamp, totals)
    if faulty == SURPLUS:
        raise_surplus(count, position)
    elif faulty != SOUND:
        raise_malformed(faulty, position)
    if count <= 0 or load16(header + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK:
        totals.min_timestamp = totals.max_timestamp = largest
    return 0


cdef int32_t add_up_records(
    const uint8_t* at, const uint8_t* end, int32_t count, uint64_t base_timestamp, Totals* totals
) noexcept nogil:
    """The index of the first malformed record, or SOUND, or SURPLUS if bytes follow the last."""
    cdef RawRecord record
    cdef int32_t index
    cdef int64_t smallest = INT64_MAX
    cdef int64_t largest = INT64_MIN
    cdef int64_t timestamp
    totals.keyless_count = 0
    totals.is_consecutive = True
    for index in range(count):
        if not read_record(&at, end, &record):
            return index
        timestamp = <int64_t>(base_timestamp + <uint64_t>record.timestamp_delta)
        smallest = min(smallest, timestamp)
        largest = max(largest, timestamp)
        totals.keyless_count += record.key is NULL
        totals.is_consecutive &= record.offset_delta == index
    totals.min_timestamp = smallest
    totals.max_timestamp = largest
    return SOUND if at is end else SURPLUS


cdef object make_scan(Totals* totals):
    scan = new_tuple(RecordScan, 5)
    put(scan, 0, totals.min_timestamp)
    put(scan, 1, totals.max_timestamp)
    put(scan, 2, totals.keyless_count)
    put(scan, 3, totals.is_consecutive)
    put(scan, 4, totals.payload_bytes)
    return scan


cdef int raise_malformed(int32_t index, Py_ssize_t position) except -1:
    raise InvalidBatch(f"record {index} of the batch at {position} is malformed")


cdef int raise_surplus(int32_t count, Py_ssize_t position) except -1:
    raise InvalidBatch(f"the batch at {position} holds more than its {count} records")


# Reading records -----------------------------------------------------------------------------------------------------

cdef class BatchReader:
    """Reads the records of one batch one by one; owns its decompressed bytes."""

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
            # A view that owns its memory: the traceback of an exception may keep it longer than this buffer is held.
            payload = memoryview(view)[position + HEADER_BYTES : position + size]
            self.take_decompressed(decompress(Compression(codec), payload, limit_bytes=limit_bytes))

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
                self.at = self.end
                raise_surplus(self.count, self.position)
            return False
        if not read_record(&self.at, self.end, &self.record):
            self.count = 0
            self.at = self.end
            raise_malformed(self.index, self.position)
        self.index += 1
        return True

    cdef int64_t offset(self) noexcept:
        return <int64_t>(<uint64_t>self.base_offset + <uint64_t><int64_t>self.record.offset_delta)

    cdef int64_t timestamp(self) noexcept:
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
    """The records of the batch at `position`, decompressed if needed. Does not check the CRC."""
    return BatchReader(view, position, limit_bytes)


def read_payload(view, Py_ssize_t position=0, *, limit_bytes=DECOMPRESSED_BYTES_DEFAULT):
    """The bytes of the batch's records, decompressed if needed."""
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
    """Scan every record of the batch, decompressed if needed. Does not check the CRC."""
    cdef BatchReader reader = BatchReader(view, position, limit_bytes)
    cdef Py_buffer buffer
    cdef Totals totals
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        add_up(header_at(&buffer, position), reader.at, reader.end, position, &totals)
    finally:
        PyBuffer_Release(&buffer)
    return make_scan(&totals)
