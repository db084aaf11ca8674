# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records into Arrow's memory layout, compiled: `column_twin` in C.

Room is taken once a batch, from the count of its records, which is bounded by the bytes that are there; the loop over
records then writes without asking, and without the interpreter: a reader's other threads go on fetching meanwhile.
Bytes of a column are never more than those of the batch they come from. A builder is for one thread at a time.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from penstock.records._record cimport RawRecord, read_bytes, read_record

from penstock.records._kernel import read_header, read_payload
from penstock.records.column_twin import BytesColumn, Columns, NumberColumn
from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.records.errors import InvalidBatch, TooLarge


cdef enum:
    NO_HEADERS = 0
    LISTED_HEADERS = 1
    RAW_HEADERS = 2
    RECORD_BYTES_MIN = 7  # no record is shorter, so a payload bounds the count of its records
    TIMESTAMP_TYPE_MASK = 0x08
    LONG_WALK_BYTES = 65536  # for so much it is worth while to let other threads run


cdef object DECOMPRESSED_BYTES_DEFAULT = DECOMPRESSED_BYTES_MAX


# Where the reader of a batch is, and what its header says.
cdef struct Walk:
    const uint8_t* at
    const uint8_t* end
    int32_t index
    int32_t count
    uint64_t base_offset
    uint64_t base_timestamp
    int64_t append_time
    bint is_append_time
    int64_t first_offset
    int64_t end_offset


# The memory of a column, with room enough for what is about to be written.
cdef struct NumberRoom:
    int64_t* data
    uint8_t* bits
    Py_ssize_t count
    Py_ssize_t null_count


cdef struct BytesRoom:
    int32_t* offsets
    uint8_t* data
    Py_ssize_t used
    uint8_t* bits
    Py_ssize_t count
    Py_ssize_t null_count


cdef struct Rows:
    NumberRoom offset
    NumberRoom timestamp
    BytesRoom key
    BytesRoom value
    BytesRoom raw_headers
    bint has_raw_headers
    Py_ssize_t count


cdef inline void put_number(NumberRoom* room, int64_t value, bint is_valid) noexcept nogil:
    room.data[room.count] = value
    room.bits[room.count >> 3] |= <uint8_t>(is_valid << (room.count & 7))
    room.null_count += not is_valid
    room.count += 1


cdef inline void put_bytes(BytesRoom* room, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    if data is not NULL:
        memcpy(room.data + room.used, data, size)
        room.used += size
    room.offsets[room.count + 1] = <int32_t>room.used
    room.bits[room.count >> 3] |= <uint8_t>((data is not NULL) << (room.count & 7))
    room.null_count += data is NULL
    room.count += 1


cdef inline int64_t timestamp_of(Walk* walk, RawRecord* record) noexcept nogil:
    if walk.is_append_time:
        return walk.append_time
    return <int64_t>(walk.base_timestamp + <uint64_t>record.timestamp_delta)


cdef void walk_plain(Walk* walk, Rows* rows) noexcept nogil:
    """Stops at the end, at a record with headers unless they are kept raw, and at one that is malformed."""
    cdef RawRecord record
    cdef const uint8_t* at
    cdef int64_t offset, timestamp
    while walk.index < walk.count:
        at = walk.at
        if not read_record(&at, walk.end, &record) or (record.header_count != 0 and not rows.has_raw_headers):
            return
        walk.at = at
        walk.index += 1
        offset = <int64_t>(walk.base_offset + <uint64_t><int64_t>record.offset_delta)
        if offset < walk.first_offset or offset >= walk.end_offset:
            continue
        timestamp = timestamp_of(walk, &record)
        put_number(&rows.offset, offset, True)
        put_number(&rows.timestamp, 0 if timestamp == -1 else microseconds(timestamp), timestamp != -1)
        put_bytes(&rows.key, record.key, record.key_size)
        put_bytes(&rows.value, record.value, record.value_size)
        if rows.has_raw_headers:
            put_bytes(&rows.raw_headers, record.headers if record.header_count else NULL, at - record.headers)
        rows.count += 1


cdef class Bits:
    """One bit for each row, set where there is a value."""

    cdef object bits
    cdef Py_ssize_t count
    cdef Py_ssize_t null_count

    def __cinit__(self):
        self.bits = bytearray()

    cdef int reserve(self, Py_ssize_t rows) except -1:
        cdef Py_ssize_t size = PyByteArray_GET_SIZE(self.bits)
        cdef Py_ssize_t wanted = (self.count + rows + 7) // 8
        if wanted > size:
            PyByteArray_Resize(self.bits, wanted)
            memset(PyByteArray_AS_STRING(self.bits) + size, 0, wanted - size)
        return 0

    cdef inline void append(self, bint is_valid) noexcept:
        (<uint8_t*>PyByteArray_AS_STRING(self.bits))[self.count >> 3] |= <uint8_t>(is_valid << (self.count & 7))
        self.null_count += not is_valid
        self.count += 1

    cdef object take(self):
        PyByteArray_Resize(self.bits, (self.count + 7) // 8)
        return self.bits


cdef class Numbers:
    cdef object data
    cdef Bits validity

    def __cinit__(self):
        self.data = bytearray()
        self.validity = Bits()

    cdef int reserve(self, Py_ssize_t rows) except -1:
        self.validity.reserve(rows)
        PyByteArray_Resize(self.data, (self.validity.count + rows) * 8)
        return 0

    cdef inline void append(self, int64_t value, bint is_valid) noexcept:
        (<int64_t*>PyByteArray_AS_STRING(self.data))[self.validity.count] = value
        self.validity.append(is_valid)

    cdef void lend(self, NumberRoom* room):
        room.data = <int64_t*>PyByteArray_AS_STRING(self.data)
        room.bits = <uint8_t*>PyByteArray_AS_STRING(self.validity.bits)
        room.count = self.validity.count
        room.null_count = self.validity.null_count

    cdef void take_back(self, NumberRoom* room):
        self.validity.count = room.count
        self.validity.null_count = room.null_count

    cdef object take(self):
        PyByteArray_Resize(self.data, self.validity.count * 8)
        return NumberColumn(self.data, self.validity.take(), self.validity.null_count)


cdef class Bytes:
    cdef object offsets
    cdef object data
    cdef Py_ssize_t used
    cdef Bits validity

    def __cinit__(self):
        self.offsets = bytearray(4)
        self.data = bytearray()
        self.validity = Bits()

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Room for `rows` more values of `size` bytes together."""
        if self.used + size > INT32_MAX:
            raise TooLarge(f"a column would pass {INT32_MAX} bytes")
        self.validity.reserve(rows)
        PyByteArray_Resize(self.offsets, (self.validity.count + rows + 1) * 4)
        if self.used + size > PyByteArray_GET_SIZE(self.data):
            PyByteArray_Resize(self.data, max(self.used + size, self.used * 2))
        return 0

    cdef inline void append(self, const void* data, Py_ssize_t size) noexcept:
        if data is not NULL:
            memcpy(PyByteArray_AS_STRING(self.data) + self.used, data, size)
            self.used += size
        (<int32_t*>PyByteArray_AS_STRING(self.offsets))[self.validity.count + 1] = <int32_t>self.used
        self.validity.append(data is not NULL)

    cdef void lend(self, BytesRoom* room):
        room.offsets = <int32_t*>PyByteArray_AS_STRING(self.offsets)
        room.data = <uint8_t*>PyByteArray_AS_STRING(self.data)
        room.used = self.used
        room.bits = <uint8_t*>PyByteArray_AS_STRING(self.validity.bits)
        room.count = self.validity.count
        room.null_count = self.validity.null_count

    cdef void take_back(self, BytesRoom* room):
        self.used = room.used
        self.validity.count = room.count
        self.validity.null_count = room.null_count

    cdef object take(self):
        PyByteArray_Resize(self.offsets, (self.validity.count + 1) * 4)
        PyByteArray_Resize(self.data, self.used)
        return BytesColumn(self.offsets, self.data, self.validity.take(), self.validity.null_count)


cdef class ColumnBuilder:
    cdef readonly int header_format
    cdef readonly Py_ssize_t row_count
    cdef Numbers offset
    cdef Numbers timestamp
    cdef Bytes key
    cdef Bytes value
    cdef Bytes raw_headers
    cdef object header_offsets
    cdef Bytes header_name
    cdef Bytes header_value

    def __cinit__(self, int header_format=LISTED_HEADERS):
        self.header_format = header_format
        self.start()

    cdef int start(self) except -1:
        self.row_count = 0
        self.offset = Numbers()
        self.timestamp = Numbers()
        self.key = Bytes()
        self.value = Bytes()
        self.raw_headers = Bytes()
        self.header_offsets = bytearray(4)
        self.header_name = Bytes()
        self.header_value = Bytes()
        return 0

    def append(
        self,
        view,
        Py_ssize_t position=0,
        *,
        int64_t first_offset=0,
        int64_t end_offset=INT64_MAX,
        limit_bytes=DECOMPRESSED_BYTES_DEFAULT,
    ):
        cdef Py_buffer buffer
        header = read_header(view, position)
        payload = read_payload(view, position, limit_bytes=limit_bytes)
        PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
        try:
            self.append_payload(&buffer, header, position, first_offset, end_offset)
        finally:
            PyBuffer_Release(&buffer)

    cdef int append_payload(
        self, Py_buffer* buffer, object header, Py_ssize_t position, int64_t first_offset, int64_t end_offset
    ) except -1:
        cdef Walk walk
        cdef RawRecord record
        walk.at = <const uint8_t*>buffer.buf
        walk.end = walk.at + buffer.len
        walk.index = 0
        walk.count = header.record_count
        walk.base_offset = <uint64_t><int64_t>header.base_offset
        walk.base_timestamp = <uint64_t><int64_t>header.base_timestamp
        walk.append_time = header.max_timestamp
        walk.is_append_time = header.attributes & TIMESTAMP_TYPE_MASK
        walk.first_offset = first_offset
        walk.end_offset = end_offset
        self.reserve(max(min(walk.count, buffer.len // RECORD_BYTES_MIN), 0), buffer.len)
        self.append_plain(&walk, buffer.len > LONG_WALK_BYTES)
        while walk.index < walk.count:  # one had headers, and so will those after it; or one is malformed
            if not read_record(&walk.at, walk.end, &record):
                raise InvalidBatch(f"record {walk.index} of the batch at {position} is malformed")
            self.append_record(&walk, &record)
            walk.index += 1
        if walk.at is not walk.end:
            raise InvalidBatch(f"the batch at {position} holds more than its {walk.count} records")
        return 0

    cdef int append_plain(self, Walk* walk, bint is_long) except -1:
        """Records without headers, up to the first that has some: no object is touched, and other threads may run."""
        cdef Rows rows
        cdef Py_ssize_t first_row = self.row_count
        cdef Py_ssize_t header_count = self.header_name.validity.count
        cdef Py_ssize_t row
        cdef int32_t* header_offsets
        self.offset.lend(&rows.offset)
        self.timestamp.lend(&rows.timestamp)
        self.key.lend(&rows.key)
        self.value.lend(&rows.value)
        if self.header_format == RAW_HEADERS:
            self.raw_headers.lend(&rows.raw_headers)
        rows.has_raw_headers = self.header_format == RAW_HEADERS
        rows.count = self.row_count
        if is_long:
            with nogil:
                walk_plain(walk, &rows)
        else:
            walk_plain(walk, &rows)
        self.offset.take_back(&rows.offset)
        self.timestamp.take_back(&rows.timestamp)
        self.key.take_back(&rows.key)
        self.value.take_back(&rows.value)
        if rows.has_raw_headers:
            self.raw_headers.take_back(&rows.raw_headers)
        self.row_count = rows.count
        if self.header_format == LISTED_HEADERS:
            header_offsets = <int32_t*>PyByteArray_AS_STRING(self.header_offsets)
            for row in range(first_row, self.row_count):
                header_offsets[row + 1] = <int32_t>header_count
        return 0

    cdef int append_record(self, Walk* walk, RawRecord* record) except -1:
        cdef int64_t offset = <int64_t>(walk.base_offset + <uint64_t><int64_t>record.offset_delta)
        if offset < walk.first_offset or offset >= walk.end_offset:
            return 0
        cdef int64_t timestamp = timestamp_of(walk, record)
        self.offset.append(offset, True)
        self.timestamp.append(0 if timestamp == -1 else microseconds(timestamp), timestamp != -1)
        self.key.append(record.key, record.key_size)
        self.value.append(record.value, record.value_size)
        if self.header_format == LISTED_HEADERS:
            if record.header_count != 0:
                self.append_headers(record, walk.at)
            (<int32_t*>PyByteArray_AS_STRING(self.header_offsets))[self.row_count + 1] = (
                <int32_t>self.header_name.validity.count
            )
        elif self.header_format == RAW_HEADERS:
            self.raw_headers.append(record.headers if record.header_count else NULL, walk.at - record.headers)
        self.row_count += 1
        return 0

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        self.offset.reserve(rows)
        self.timestamp.reserve(rows)
        self.key.reserve(rows, size)
        self.value.reserve(rows, size)
        if self.header_format == LISTED_HEADERS:
            PyByteArray_Resize(self.header_offsets, (self.row_count + rows + 1) * 4)
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
        self.header_name.reserve(record.header_count, end - at)
        self.header_value.reserve(record.header_count, end - at)
        for index in range(record.header_count):
            at = read_bytes(at, end, &name, &name_size)
            if at is not NULL:
                at = read_bytes(at, end, &content, &content_size)
            if at is NULL:
                raise InvalidBatch("headers changed while they were read")
            if is_ascii(name, name_size):
                self.header_name.append(name, name_size)
            else:
                self.append_text(name, name_size, record.header_count - index, end - at)
            self.header_value.append(content, content_size)
        return 0

    cdef int append_text(self, const uint8_t* name, Py_ssize_t size, int32_t left, Py_ssize_t left_size) except -1:
        """A name that may be no UTF-8, which Arrow would not forgive; mended, it can be longer than it was."""
        text = PyUnicode_AsUTF8String(PyUnicode_DecodeUTF8(<const char*>name, size, "replace"))
        self.header_name.reserve(left, PyBytes_GET_SIZE(text) + left_size)
        self.header_name.append(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        return 0

    def take(self):
        PyByteArray_Resize(self.header_offsets, (self.row_count + 1) * 4 if self.header_format == LISTED_HEADERS else 4)
        columns = Columns(
            self.row_count,
            self.offset.take(),
            self.timestamp.take(),
            self.key.take(),
            self.value.take(),
            self.raw_headers.take(),
            self.header_name.validity.count,
            self.header_offsets,
            self.header_name.take(),
            self.header_value.take(),
        )
        self.start()
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
