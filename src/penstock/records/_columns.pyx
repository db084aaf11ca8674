# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decodes record batches into Arrow's memory layout (`arrow_layout`), without a Python object per record.

Memory is reserved once per batch. The record count of the header is trusted only as far as the payload can hold that
many records. The loop over the records then writes without checks, and without the interpreter lock for large batches,
so that other threads continue fetching. A column never takes more bytes than the batch it comes from.

A `ColumnBuilder` belongs to one thread at a time.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t

from penstock.records._buffers cimport (
    BytesBuffers,
    BytesCursor,
    GrowingBuffer,
    NumberBuffers,
    NumberCursor,
    put_bytes,
    put_number,
)
from penstock.records._bytes cimport load16, load32, load64
from penstock.records._kernel cimport header_at, whole_size
from penstock.records._layout cimport (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    COMPRESSION_MASK,
    HEADER_BYTES,
    MAX_TIMESTAMP_AT,
    RECORD_COUNT_AT,
    TIMESTAMP_TYPE_MASK,
)
from penstock.records._record cimport RawRecord, read_bytes, read_record

from penstock.records.arrow_layout import Columns
from penstock.records.batch import Compression
from penstock.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from penstock.records.errors import InvalidBatch


cdef enum:
    NO_HEADERS = 0
    LISTED_HEADERS = 1
    RAW_HEADERS = 2
    LONG_WALK_BYTES = 65536  # from this size on it pays to let other threads run


cdef object DECOMPRESSED_BYTES_DEFAULT = DECOMPRESSED_BYTES_MAX


# Where rows are written.
cdef struct Rows:
    NumberCursor offset
    NumberCursor timestamp
    BytesCursor key
    BytesCursor value
    BytesCursor raw_headers
    bint has_raw_headers
    Py_ssize_t count


cdef inline int64_t timestamp_of(Walk* walk, RawRecord* record) noexcept nogil:
    if walk.is_append_time:
        return walk.append_time
    return <int64_t>(walk.base_timestamp + <uint64_t>record.timestamp_delta)


cdef void walk_plain(Walk* walk, Rows* all_rows) noexcept nogil:
    """Stops at the end, at a record with headers unless they are kept raw, and at a malformed one."""
    cdef Rows rows = all_rows[0]  # a local copy, so that it stays in registers
    cdef const uint8_t* at = walk.at
    cdef const uint8_t* end = walk.end
    cdef int32_t index = walk.index
    cdef RawRecord record
    cdef int64_t offset, timestamp
    while index < walk.count:
        if not read_record(&at, end, &record) or (record.header_count != 0 and not rows.has_raw_headers):
            break
        walk.at = at
        index += 1
        offset = <int64_t>(walk.base_offset + <uint64_t><int64_t>record.offset_delta)
        if offset < walk.first_offset or offset >= walk.end_offset:
            continue
        timestamp = timestamp_of(walk, &record)
        put_number(&rows.offset, rows.count, offset, True)
        put_number(&rows.timestamp, rows.count, 0 if timestamp == -1 else microseconds(timestamp), timestamp != -1)
        put_bytes(&rows.key, rows.count, record.key, record.key_size)
        put_bytes(&rows.value, rows.count, record.value, record.value_size)
        if rows.has_raw_headers:
            put_bytes(
                &rows.raw_headers, rows.count, record.headers if record.header_count else NULL, at - record.headers
            )
        rows.count += 1
    walk.index = index
    all_rows[0] = rows


cdef class ColumnBuilder:
    """Collects the records of batches as columns; `take` returns them and starts again.

    `allocate(size)` returns a writable buffer that has `resize`, such as `pyarrow.allocate_buffer`; the default is a
    bytearray.
    """

    def __cinit__(self, int header_format=LISTED_HEADERS, allocate=None):
        self.header_format = header_format
        self.offset = NumberBuffers(allocate)
        self.timestamp = NumberBuffers(allocate)
        self.key = BytesBuffers(allocate)
        self.value = BytesBuffers(allocate)
        self.raw_headers = BytesBuffers(allocate if header_format == RAW_HEADERS else None)
        self.header_offsets = GrowingBuffer(allocate)
        self.header_name = BytesBuffers()
        self.header_value = BytesBuffers()
        self.append_time_runs = []

    def append(
        self,
        view,
        Py_ssize_t position=0,
        *,
        int64_t first_offset=0,
        int64_t end_offset=INT64_MAX,
        limit_bytes=DECOMPRESSED_BYTES_DEFAULT,
    ):
        """Append the records of the batch at `position` with `first_offset <= offset < end_offset`.

        After an exception the builder has part of the batch and must be dropped.
        """
        cdef Py_buffer buffer
        PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
        try:
            self.append_at(view, &buffer, position, first_offset, end_offset, limit_bytes)
        finally:
            PyBuffer_Release(&buffer)

    cdef int append_at(
        self,
        object view,
        Py_buffer* buffer,
        Py_ssize_t position,
        int64_t first_offset,
        int64_t end_offset,
        object limit_bytes,
    ) except -1:
        """`append`, for a caller that holds the bytes of `view` in `buffer`."""
        cdef Py_buffer decompressed
        cdef const uint8_t* head = header_at(buffer, position)
        cdef int64_t size = whole_size(head, buffer, position)
        cdef int codec = load16(head + ATTRIBUTES_AT) & COMPRESSION_MASK
        cdef Walk walk
        walk.index = 0
        walk.count = <int32_t>load32(head + RECORD_COUNT_AT)
        walk.base_offset = load64(head)
        walk.base_timestamp = load64(head + BASE_TIMESTAMP_AT)
        walk.append_time = <int64_t>load64(head + MAX_TIMESTAMP_AT)
        walk.is_append_time = load16(head + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK
        walk.first_offset = first_offset
        walk.end_offset = end_offset
        if codec == 0:
            walk.at = head + HEADER_BYTES
            walk.end = head + size
            return self.append_records(&walk, position)
        payload = memoryview(view)[position + HEADER_BYTES : position + size]
        payload = decompress(Compression(codec), payload, limit_bytes=limit_bytes)
        PyObject_GetBuffer(payload, &decompressed, PyBUF_SIMPLE)
        try:
            walk.at = <const uint8_t*>decompressed.buf
            walk.end = walk.at + decompressed.len
            return self.append_records(&walk, position)
        finally:
            PyBuffer_Release(&decompressed)

    cdef int append_records(self, Walk* walk, Py_ssize_t position) except -1:
        cdef RawRecord record
        cdef Py_ssize_t size = walk.end - walk.at
        cdef Py_ssize_t first_row = self.row_count
        self.reserve(records_max(walk.count, size), size)
        self.append_plain(walk, size > LONG_WALK_BYTES)
        while walk.index < walk.count:  # a record has headers, as those after it probably do; or one is malformed
            if not read_record(&walk.at, walk.end, &record):
                raise InvalidBatch(f"record {walk.index} of the batch at {position} is malformed")
            self.append_record(walk, &record)
            walk.index += 1
        if walk.at is not walk.end:
            raise InvalidBatch(f"the batch at {position} holds more than its {walk.count} records")
        if walk.is_append_time and self.row_count > first_row:
            self.note_append_time(first_row)
        return 0

    cdef int note_append_time(self, Py_ssize_t first_row) except -1:
        cdef Py_ssize_t count = len(self.append_time_runs)
        if count and self.append_time_runs[count - 1][1] == first_row:  # -1 would be taken as a size here
            first_row = self.append_time_runs.pop()[0]
        self.append_time_runs.append((first_row, self.row_count))
        return 0

    cdef int append_plain(self, Walk* walk, bint is_long) except -1:
        """Records without headers, up to the first that has some: no Python object is used, and other threads may run.
        """
        cdef Rows rows
        cdef int32_t* header_offsets = <int32_t*>self.header_offsets.data
        cdef Py_ssize_t row
        rows.offset = self.offset.cursor
        rows.timestamp = self.timestamp.cursor
        rows.key = self.key.cursor
        rows.value = self.value.cursor
        rows.raw_headers = self.raw_headers.cursor
        rows.has_raw_headers = self.header_format == RAW_HEADERS
        rows.count = self.row_count
        if is_long:
            with nogil:
                walk_plain(walk, &rows)
        else:
            walk_plain(walk, &rows)
        self.offset.cursor = rows.offset
        self.timestamp.cursor = rows.timestamp
        self.key.cursor = rows.key
        self.value.cursor = rows.value
        self.raw_headers.cursor = rows.raw_headers
        if self.header_format == LISTED_HEADERS:
            for row in range(self.row_count, rows.count):
                header_offsets[row + 1] = <int32_t>self.header_count
        self.row_count = rows.count
        return 0

    cdef int append_record(self, Walk* walk, RawRecord* record) except -1:
        cdef int64_t offset = <int64_t>(walk.base_offset + <uint64_t><int64_t>record.offset_delta)
        cdef Py_ssize_t row = self.row_count
        if offset < walk.first_offset or offset >= walk.end_offset:
            return 0
        cdef int64_t timestamp = timestamp_of(walk, record)
        put_number(&self.offset.cursor, row, offset, True)
        put_number(&self.timestamp.cursor, row, 0 if timestamp == -1 else microseconds(timestamp), timestamp != -1)
        put_bytes(&self.key.cursor, row, record.key, record.key_size)
        put_bytes(&self.value.cursor, row, record.value, record.value_size)
        if self.header_format == LISTED_HEADERS:
            if record.header_count != 0:
                self.append_headers(record, walk.at)
            (<int32_t*>self.header_offsets.data)[row + 1] = <int32_t>self.header_count
        elif self.header_format == RAW_HEADERS:
            put_bytes(
                &self.raw_headers.cursor, row, record.headers if record.header_count else NULL, walk.at - record.headers
            )
        self.row_count += 1
        return 0

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Reserve space for `rows` more rows of `size` bytes in total."""
        rows += self.row_count
        self.offset.reserve(rows)
        self.timestamp.reserve(rows)
        self.key.reserve(rows, size)
        self.value.reserve(rows, size)
        if self.header_format == LISTED_HEADERS:
            self.header_offsets.reserve((rows + 1) * 4)
            (<int32_t*>self.header_offsets.data)[0] = 0
        elif self.header_format == RAW_HEADERS:
            self.raw_headers.reserve(rows, size)
        return 0

    cdef int append_headers(self, RawRecord* record, const uint8_t* end) except -1:
        cdef const uint8_t* at = record.headers
        cdef const uint8_t* name
        cdef const uint8_t* content
        cdef int32_t name_size = 0
        cdef int32_t content_size = 0
        cdef int32_t index
        self.header_name.reserve(self.header_count + record.header_count, end - at)
        self.header_value.reserve(self.header_count + record.header_count, end - at)
        for index in range(record.header_count):
            at = read_bytes(at, end, &name, &name_size)
            if at is not NULL:
                at = read_bytes(at, end, &content, &content_size)
            if at is NULL:
                raise InvalidBatch("headers changed while they were read")
            if is_ascii(name, name_size):
                put_bytes(&self.header_name.cursor, self.header_count, name, name_size)
            else:
                self.append_text(name, name_size, record.header_count - index, end - at)
            put_bytes(&self.header_value.cursor, self.header_count, content, content_size)
            self.header_count += 1
        return 0

    cdef int append_text(self, const uint8_t* name, Py_ssize_t size, int32_t left, Py_ssize_t left_size) except -1:
        """A name that may be invalid UTF-8, which Arrow does not accept; the corrected name can be longer."""
        text = PyUnicode_AsUTF8String(PyUnicode_DecodeUTF8(<const char*>name, size, "replace"))
        name, size = <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        self.header_name.reserve(self.header_count + left, size + left_size)
        put_bytes(&self.header_name.cursor, self.header_count, name, size)
        return 0

    def take(self):
        """The collected `Columns`; the builder is empty afterwards."""
        cdef Py_ssize_t rows = self.row_count
        cdef bint lists_headers = self.header_format == LISTED_HEADERS
        self.reserve(0, 0)  # even without rows there is a first offset
        columns = Columns(
            rows,
            self.offset.take(rows),
            self.timestamp.take(rows),
            self.key.take(rows),
            self.value.take(rows),
            self.raw_headers.take(rows if self.header_format == RAW_HEADERS else 0),
            self.header_count,
            self.header_offsets.take((rows + 1) * 4) if lists_headers else bytearray(4),
            self.header_name.take(self.header_count),
            self.header_value.take(self.header_count),
            tuple(self.append_time_runs),
        )
        self.row_count = self.header_count = 0
        self.append_time_runs.clear()
        return columns


cdef inline int64_t microseconds(int64_t timestamp_ms) noexcept nogil:
    if timestamp_ms > INT64_MAX // 1000:
        return INT64_MAX
    if timestamp_ms < INT64_MIN // 1000:
        return INT64_MIN
    return timestamp_ms * 1000


cdef inline bint is_ascii(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(size):
        if text[index] >= 0x80:
            return False
    return True
