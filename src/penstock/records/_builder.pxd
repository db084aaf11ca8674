"""The declarations of `_builder` for other compiled modules: record headers and batch headers."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t


cdef Py_ssize_t headers_size(list headers) except -1

cdef uint8_t* write_headers(uint8_t* at, list headers) except NULL

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
) except -1

cdef object compressed(object view, object codec, object level)
