"""The message that `_fetched` makes of a record."""

from libc.stdint cimport int32_t, int64_t


cdef enum:
    NO_LEADER_EPOCH = -1


cdef class Message:
    cdef readonly object topic
    cdef readonly object key
    cdef readonly object value
    cdef readonly object headers
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef readonly int32_t partition
    cdef int32_t epoch
    cdef bint is_append_time

    cdef tuple fields(self)
