"""One record in C: variable-length integers and the walk over a record's fields.

Every function takes the end of what may be read and returns NULL rather than look at or past it, so that no input,
however hostile, leads outside the buffer. No Python object is touched.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct RawRecord:
    int64_t timestamp_delta
    int32_t offset_delta
    const uint8_t* key  # NULL if the record has none
    int32_t key_size
    const uint8_t* value
    int32_t value_size
    const uint8_t* headers  # the first header, already walked through once
    int32_t header_count


cdef inline const uint8_t* read_varint(const uint8_t* at, const uint8_t* end, int32_t* value) noexcept nogil:
    cdef uint32_t raw = 0
    cdef int shift = 0
    while shift <= 28 and at < end:
        raw |= <uint32_t>(at[0] & 0x7F) << shift
        if at[0] < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            return at + 1
        at += 1
        shift += 7
    return NULL


cdef inline const uint8_t* read_varlong(const uint8_t* at, const uint8_t* end, int64_t* value) noexcept nogil:
    cdef uint64_t raw = 0
    cdef int shift = 0
    while shift <= 63 and at < end:
        raw |= <uint64_t>(at[0] & 0x7F) << shift
        if at[0] < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            return at + 1
        at += 1
        shift += 7
    return NULL


cdef inline const uint8_t* read_bytes(
    const uint8_t* at, const uint8_t* end, const uint8_t** data, int32_t* size
) noexcept nogil:
    """A length and as many bytes; a negative length is no bytes at all, and `data` is NULL."""
    at = read_varint(at, end, size)
    if at is NULL:
        return NULL
    if size[0] < 0:
        data[0] = NULL
        return at
    if size[0] > end - at:
        return NULL
    data[0] = at
    return at + size[0]


cdef inline bint read_record(const uint8_t** cursor, const uint8_t* end, RawRecord* record) noexcept nogil:
    """The record at the cursor, which moves to the next one; False if it is malformed."""
    cdef int32_t length
    cdef const uint8_t* at = read_varint(cursor[0], end, &length)
    if at is NULL or length <= 0 or length > end - at:
        return False
    end = at + length
    cursor[0] = end
    at = read_varlong(at + 1, end, &record.timestamp_delta)  # one byte of attributes, none defined
    if at is NULL:
        return False
    at = read_varint(at, end, &record.offset_delta)
    if at is NULL:
        return False
    at = read_bytes(at, end, &record.key, &record.key_size)
    if at is NULL:
        return False
    at = read_bytes(at, end, &record.value, &record.value_size)
    if at is NULL:
        return False
    at = read_varint(at, end, &record.header_count)
    if at is NULL or record.header_count < 0 or record.header_count > end - at:
        return False
    record.headers = at
    if record.header_count != 0:
        at = skip_headers(at, end, record.header_count)
    return at is end


cdef inline const uint8_t* skip_headers(const uint8_t* at, const uint8_t* end, int32_t count) noexcept nogil:
    cdef const uint8_t* data
    cdef int32_t size
    while count > 0:
        at = read_bytes(at, end, &data, &size)
        if at is NULL or data is NULL:
            return NULL
        at = read_bytes(at, end, &data, &size)
        if at is NULL:
            return NULL
        count -= 1
    return at
