"""The declarations of `_intake` for `_rows`."""

from libc.stdint cimport int32_t, int64_t

from penstock.records._appender cimport ProducerBatch, Receipt


cdef Py_ssize_t largest_record(
    Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t header_count, Py_ssize_t headers_bytes
) noexcept


cdef class Span:
    cdef readonly ProducerBatch batch
    cdef readonly int32_t first
    cdef readonly int32_t count
    cdef readonly int32_t number
    cdef object owner


cdef class PartitionQueue:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly ProducerBatch open
    cdef readonly object closed
    cdef public object line
    cdef bint is_reported
    cdef Py_ssize_t usual_bytes
    cdef Span span

    cdef int close_batch(self) except -1


cdef class TopicQueues:
    cdef readonly str name
    cdef readonly list queues
    cdef public PartitionQueue sticky
    cdef public object serialize_key
    cdef public object serialize_value
    cdef Py_ssize_t sticky_bytes


cdef class Intake:
    cdef readonly dict topics
    cdef public bint is_plain
    cdef public bint is_open
    cdef readonly Py_ssize_t available_bytes
    cdef readonly Py_ssize_t batch_bytes_max
    cdef readonly Py_ssize_t record_bytes_max
    cdef object host
    cdef object now_ms
    cdef object wall_ms
    cdef bint ignores_keys
    cdef list news
    cdef list spare_buffers

    cdef object put(
        self, object name, object value, object key, object headers, object partition, object timestamp_ms
    )
    cdef Receipt add(
        self, TopicQueues topic, PartitionQueue queue, int64_t timestamp, const char* key, Py_ssize_t key_size,
        const char* value, Py_ssize_t value_size, list headers
    )
    cdef int open_batch(self, PartitionQueue queue) except -1
    cdef int64_t wall(self) except? -1
    cdef object serialized(self, TopicQueues topic, object serialize, object value, bint is_key)
