"""Writes records in C: variable-length integers, fields with their sizes, and batch headers.

Sizes are computed before anything is written: the caller has reserved memory, and nothing here checks bounds.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline Py_ssize_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef Py_ssize_t size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* at, int64_t value) noexcept nogil:
    """Where the next byte goes."""
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw >= 0x80:
        at[0] = <uint8_t>(raw | 0x80)
        at += 1
        raw >>= 7
    at[0] = <uint8_t>raw
    return at + 1


cdef inline uint8_t* write_field(uint8_t* at, const char* data, Py_ssize_t size) noexcept nogil:
    """A key, a value, a header's name or value; no data is a null."""
    if data is NULL:
        return write_varint(at, -1)
    at = write_varint(at, size)
    memcpy(at, data, size)
    return at + size


cdef inline Py_ssize_t field_size(object data, const char** start) noexcept:
    """The size of a key, a value or a header's value, and where its bytes start; for bytes or None."""
    if data is None:
        start[0] = NULL
        return 1
    start[0] = PyBytes_AS_STRING(data)
    return varint_size(PyBytes_GET_SIZE(data)) + PyBytes_GET_SIZE(data)
