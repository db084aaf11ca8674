# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Parses and writes messages of formats v0 and v1.

    offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | timestamp i64, in v1 only |
    key: i32 and bytes | value: i32 and bytes

A size of -1 is a null. The CRC is CRC-32 (zlib's) and covers everything after itself. `message_set` defines wrapper
messages. As in `_kernel.pyx`, nothing is read before it is known to be inside the buffer.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from penstock.records._bytes cimport load32, load64, new_tuple, plain_bytes, put, store32, store64

from zlib import crc32

from penstock.records.batch import TimestampType
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedMagic
from penstock.records.old_messages import OldMessage


cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char* data, Py_ssize_t size, int flags)
    int PyBUF_READ


cdef enum:
    LENGTH_BYTES = 12
    MESSAGE_BYTES_MIN = 14
    TIMESTAMP_TYPE_MASK = 0x08


def parse_messages(view):
    """All messages of a buffer that must hold only whole messages; every CRC is checked."""
    cdef Py_buffer buffer
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t size
    cdef const uint8_t* at
    cdef list messages = []
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        while position < buffer.len:
            if buffer.len - position < LENGTH_BYTES:
                raise CorruptBatch(f"a message at {position} is cut off")
            at = <const uint8_t*>buffer.buf + position
            size = <int32_t>load32(at + 8)
            position += LENGTH_BYTES
            if size < MESSAGE_BYTES_MIN or size > buffer.len - position:
                raise CorruptBatch(
                    f"the message at {position - LENGTH_BYTES} claims {size} of {buffer.len - position} bytes"
                )
            messages.append(parse_message(at, size, position - LENGTH_BYTES))
            position += size
        return messages
    finally:
        PyBuffer_Release(&buffer)


cdef object parse_message(const uint8_t* head, Py_ssize_t size, Py_ssize_t position):
    cdef const uint8_t* at = head + LENGTH_BYTES
    cdef const uint8_t* end = at + size
    cdef uint32_t stored_crc = load32(at)
    cdef uint32_t crc = checksum(at + 4, size - 4)
    cdef int magic = at[4]
    cdef int64_t timestamp = -1
    if crc != stored_crc:
        raise CorruptBatch(f"the message at {position} has checksum {crc:#x}, it says {stored_crc:#x}")
    if magic > 1:
        raise UnsupportedMagic(f"format {magic} at {position} is no message of format 0 or 1")
    message = new_tuple(OldMessage, 6)
    put(message, 0, <int64_t>load64(head))
    put(message, 1, magic)
    put(message, 2, <int>at[5])
    at += 6
    if magic == 1:
        timestamp = <int64_t>load64(at)  # 8 bytes that exist, because the minimum size covers both sizes and more
        at += 8
    put(message, 3, timestamp)
    at = read_field(message, 4, at, end)
    if at is not NULL:
        at = read_field(message, 5, at, end)
    if at is not end:
        raise InvalidBatch(f"the message at {position} is malformed")
    return message


cdef const uint8_t* read_field(object message, Py_ssize_t index, const uint8_t* at, const uint8_t* end) except? NULL:
    """Set a field of the message to the bytes at `at`; NULL without an exception if they exceed the message."""
    cdef int32_t size
    if end - at < 4:
        return NULL
    size = <int32_t>load32(at)
    at += 4
    if size < 0:
        put(message, index, None)
        return at
    if size > end - at:
        return NULL
    put(message, index, PyBytes_FromStringAndSize(<const char*>at, size))
    return at + size


cdef uint32_t checksum(const uint8_t* data, Py_ssize_t size) except? 0:
    return crc32(PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ))


def write_messages(
    records, *, int magic, int64_t base_offset=0, int codec=0, timestamp_type=TimestampType.CREATE_TIME
):
    """`records` as messages with offsets from `base_offset`. These formats have no headers."""
    cdef object out = bytearray()
    cdef uint8_t* at
    cdef Py_ssize_t used = 0
    cdef Py_ssize_t capacity = 0
    cdef Py_ssize_t size
    cdef int attributes = codec | (TIMESTAMP_TYPE_MASK if magic == 1 and timestamp_type else 0)
    for offset, timestamp, key, value, _ in records:
        key = plain_bytes(key)
        value = plain_bytes(value)
        size = 14 + (8 if magic == 1 else 0)
        size += (0 if key is None else PyBytes_GET_SIZE(key)) + (0 if value is None else PyBytes_GET_SIZE(value))
        if size > INT32_MAX:
            raise ValueError(f"a message of {size} bytes is too large")
        if capacity - used < LENGTH_BYTES + size:
            capacity = max(2 * capacity, used + LENGTH_BYTES + size)
            PyByteArray_Resize(out, capacity)
        at = <uint8_t*>PyByteArray_AS_STRING(out) + used
        used += LENGTH_BYTES + size
        store64(at, <int64_t>offset - base_offset)
        store32(at + 8, size)
        at += LENGTH_BYTES
        at[4] = magic
        at[5] = attributes
        write_fields(at + 6, magic, timestamp, key, value)
        store32(at, checksum(at + 4, size - 4))
    PyByteArray_Resize(out, used)
    return out


cdef int write_fields(uint8_t* at, int magic, int64_t timestamp, object key, object value) except -1:
    if magic == 1:
        store64(at, timestamp)
        at += 8
    at = write_field(at, key)
    write_field(at, value)
    return 0


cdef inline uint8_t* write_field(uint8_t* at, object data) noexcept:
    if data is None:
        store32(at, -1)
        return at + 4
    store32(at, PyBytes_GET_SIZE(data))
    memcpy(at + 4, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return at + 4 + PyBytes_GET_SIZE(data)
