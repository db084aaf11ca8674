# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Where an application's records enter the producer: partition queues, buffer accounting, and `send` itself.

A `send` finds the topic, takes bytes and text, chooses the partition by key or keeps the sticky one, appends to the
open batch and returns a receipt, all in one compiled call that no other thread interrupts. Unusual cases (unknown
topic, full buffer, record too large, interceptors, custom partitioner, wrong type) go to `host.send_otherwise`. Python
code runs only before a record is read (serializers, `host.choose`) and after it was appended (`host.opened`,
`host.filled`). `delivery.Host` declares the methods of the host.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec
from posix.types cimport clockid_t

from penstock.records._appender cimport ProducerBatch, Receipt, murmur2_of
from penstock.records._builder cimport headers_size
from penstock.records._bytes cimport plain_bytes
from penstock.records._layout cimport HEADER_BYTES
from penstock.records._writing cimport varint_size

from collections import deque

from penstock.records.delivery import lasting, plain_headers


cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)
    void PyErr_Clear()
    long PyLong_AsLongAndOverflow(object number, int* overflow)


cdef enum:
    FIRST_CAPACITY = 1024
    RECORD_OVERHEAD = 31  # its length 5, attributes 1, timestamp 10, offset 5, the lengths of key and value 5 each
    SPARE_BUFFERS_MAX = 32
    ORDINARY = 0
    ODD = 1


cdef class Span:
    """Consecutive rows of one table in a batch."""


cdef class PartitionQueue:
    """The unsent batches of one partition: closed ones, and one that is open."""

    def __init__(self, topic, partition):
        self.topic = topic
        self.partition = partition
        self.closed = deque()
        self.usual_bytes = FIRST_CAPACITY

    def close_open(self):
        """Close the open batch."""
        self.close_batch()

    def take(self):
        """The first batch, which is the open one if it is the only one; None if there is none."""
        cdef ProducerBatch batch = self.open
        if self.closed:
            return self.closed.popleft()
        if batch is not None:
            self.usual_bytes = batch.used
            self.open = None
        return batch

    def forget(self):
        """The queue is empty: report it again when a record comes. False if one came meanwhile."""
        if self.open is not None or self.closed:
            return False
        self.is_reported = False
        return True

    cdef int close_batch(self) except -1:
        if self.open is not None:
            self.closed.append(self.open)
            self.usual_bytes = self.open.used
            self.open = None
        return 0


cdef class TopicQueues:
    """The partitions of one topic, and the sticky one for records without a key."""

    def __init__(self, name, count, serialize_key=None, serialize_value=None):
        self.name = name
        self.queues = []
        self.serialize_key = serialize_key
        self.serialize_value = serialize_value
        self.grow(count)

    def grow(self, count):
        """Have at least `count` partitions."""
        while len(self.queues) < count:
            self.queues.append(PartitionQueue(self.name, len(self.queues)))


cdef class Intake:
    """All topics of a producer, and how much of `buffer.memory` is free (`available_bytes`).

    `is_plain` is False when every record must go through `host.send_otherwise`. `is_open` is False once the producer
    closes; a `send` that began before then is refused too.
    """

    def __init__(
        self, host, *, batch_bytes_max, buffer_bytes, record_bytes_max, now_ms=None, wall_ms=None, ignores_keys=False
    ):
        self.host = host
        self.batch_bytes_max = max(batch_bytes_max, 1)
        self.available_bytes = buffer_bytes
        self.record_bytes_max = record_bytes_max
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.ignores_keys = ignores_keys
        self.is_plain = True
        self.is_open = True
        self.topics = {}
        self.news = []
        self.spare_buffers = []

    def send(self, topic, value=None, *, key=None, headers=None, partition=None, timestamp_ms=None):
        return self.put(topic, value, key, headers, partition, timestamp_ms)

    def append(self, TopicQueues topic, int32_t partition, timestamp_ms, key, value, headers):
        """Append a record of bytes or None and of plain headers to a partition; None if the buffer is full.

        A negative partition means the sticky one.
        """
        cdef bytes key_bytes = plain_bytes(key)
        cdef bytes value_bytes = plain_bytes(value)
        cdef list pairs = plain_headers(headers) if headers else None
        return self.add(
            topic,
            None if partition < 0 else topic.queues[partition],
            self.wall() if timestamp_ms is None else timestamp_ms,
            NULL if key_bytes is None else PyBytes_AS_STRING(key_bytes),
            0 if key_bytes is None else PyBytes_GET_SIZE(key_bytes),
            NULL if value_bytes is None else PyBytes_AS_STRING(value_bytes),
            0 if value_bytes is None else PyBytes_GET_SIZE(value_bytes),
            pairs,
        )

    def take_news(self):
        """Partitions that got a record since they were last empty, once each."""
        news, self.news = self.news, []
        return news

    def give_back(self, ProducerBatch batch):
        """The batch is done: its bytes are free for other records."""
        self.available_bytes += batch.charged_bytes
        batch.charged_bytes = 0
        buffer = batch.take_buffer()
        # Buffers are reused: the pages of a fresh megabyte cost 0.1 ms.
        if buffer is not None and len(buffer) == self.batch_bytes_max:
            if len(self.spare_buffers) < SPARE_BUFFERS_MAX:
                self.spare_buffers.append(buffer)

    def charge(self, ProducerBatch batch):
        """Count a batch that was split off another."""
        batch.charged_bytes = batch.used
        self.available_bytes -= batch.used

    cdef object put(
        self, object name, object value, object key, object headers, object partition, object timestamp_ms
    ):
        cdef TopicQueues topic
        cdef PartitionQueue queue = None
        cdef PyObject* found
        cdef const char* key_start = NULL
        cdef const char* value_start = NULL
        cdef Py_ssize_t key_size = 0
        cdef Py_ssize_t value_size = 0
        cdef int64_t timestamp
        cdef Py_ssize_t index
        cdef int overflow
        cdef object key_data = key
        cdef object value_data = value
        cdef list pairs = None
        if not self.is_plain or not PyUnicode_CheckExact(name):
            return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
        found = PyDict_GetItem(self.topics, name)
        if found is NULL:
            return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
        topic = <TopicQueues>found
        if key is not None:
            if topic.serialize_key is not None:
                key_data = self.serialized(topic, topic.serialize_key, key, True)
            if read_field(key_data, &key_start, &key_size) == ODD:
                return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
        if value is not None:
            if topic.serialize_value is not None:
                value_data = self.serialized(topic, topic.serialize_value, value, False)
            if read_field(value_data, &value_start, &value_size) == ODD:
                return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
        if partition is not None:
            index = PyLong_AsLongAndOverflow(partition, &overflow) if type(partition) is int else -1
            if not 0 <= index < len(topic.queues):
                return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
            queue = <PartitionQueue>PyList_GET_ITEM(topic.queues, index)
        elif key_start is not NULL and not self.ignores_keys:
            index = (murmur2_of(<const uint8_t*>key_start, key_size) & 0x7FFFFFFF) % <int32_t>len(topic.queues)
            queue = <PartitionQueue>PyList_GET_ITEM(topic.queues, index)
        if timestamp_ms is None:
            timestamp = self.wall()
        elif type(timestamp_ms) is int and 0 <= timestamp_ms <= INT64_MAX:
            timestamp = timestamp_ms
        else:
            return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
        if headers is not None:
            headers = lasting(headers)
            try:
                pairs = plain_headers(headers)
            except TypeError:
                return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
        receipt = self.add(topic, queue, timestamp, key_start, key_size, value_start, value_size, pairs)
        if receipt is None:
            return self.host.send_otherwise(name, value, key, headers, partition, timestamp_ms)
        return receipt

    cdef Receipt add(
        self, TopicQueues topic, PartitionQueue queue, int64_t timestamp, const char* key, Py_ssize_t key_size,
        const char* value, Py_ssize_t value_size, list headers
    ):
        """Append to the queue, or to the topic's sticky one if it is None; returns None if that is not possible now."""
        cdef bint is_sticky = queue is None
        cdef bint is_opened = False
        cdef bint is_filled = False
        cdef Py_ssize_t header_count = 0
        cdef Py_ssize_t headers_bytes = 0
        cdef Py_ssize_t size, whole_size
        cdef ProducerBatch batch
        cdef Receipt receipt
        if headers is not None:
            header_count = len(headers)
            headers_bytes = headers_size(headers)
        size = largest_record(key_size, value_size, header_count, headers_bytes)
        if is_sticky:
            queue = topic.sticky
            if queue is None or topic.sticky_bytes + HEADER_BYTES + size > self.batch_bytes_max:
                # Not before the batch is full: a half-full batch would have to wait for `linger.ms`.
                if queue is not None and queue.open is not None and queue.open.used + size > self.batch_bytes_max:
                    queue.close_batch()
                    is_filled = True
                if queue is None or queue.open is None:
                    topic.sticky_bytes = 0
                    queue = topic.sticky = self.host.choose(topic)
        # From here on no Python code runs, so no other thread does.
        batch = queue.open
        if not self.is_open or size + HEADER_BYTES > self.record_bytes_max or size + HEADER_BYTES > self.available_bytes:
            return None
        if batch is not None and batch.used + size > self.batch_bytes_max:
            queue.close_batch()
            batch = None
            is_filled = True
        if batch is None:
            self.open_batch(queue)
            batch = queue.open
            is_opened = True
        size = batch.record_size(
            timestamp, key_size, key is not NULL, value_size, value is not NULL, header_count, headers_bytes
        )
        whole_size = size + varint_size(size)
        batch.put(size, timestamp, key, key_size, value, value_size, headers, self.batch_bytes_max)
        batch.charged_bytes += whole_size
        self.available_bytes -= whole_size
        if is_sticky:
            topic.sticky_bytes += whole_size
        receipt = Receipt.__new__(Receipt)
        receipt.batch = batch
        receipt.index = batch.count - 1
        receipt.timestamp = timestamp
        if not queue.is_reported:
            queue.is_reported = True
            self.news.append(queue)
        if is_filled:
            self.host.filled()
        elif is_opened:
            self.host.opened()
        return receipt

    cdef int open_batch(self, PartitionQueue queue) except -1:
        cdef ProducerBatch batch = ProducerBatch(queue.topic, queue.partition, self.host)
        cdef Py_ssize_t capacity = min(self.batch_bytes_max, queue.usual_bytes)
        batch.created_ms = clock_ms(CLOCK_MONOTONIC) if self.now_ms is None else self.now_ms()
        if 2 * capacity > self.batch_bytes_max:
            # The last one was almost full, so this one will probably be too.
            batch.open(self.batch_bytes_max, self.spare_buffers.pop() if self.spare_buffers else None)
        else:
            batch.open(max(capacity, FIRST_CAPACITY), None)
        # Making objects may start the garbage collector, which may run Python code, and so another thread.
        if queue.open is None:
            batch.charged_bytes = HEADER_BYTES
            self.available_bytes -= HEADER_BYTES
            queue.open = batch
        return 0

    cdef int64_t wall(self) except? -1:
        return clock_ms(CLOCK_REALTIME) if self.wall_ms is None else self.wall_ms()

    cdef object serialized(self, TopicQueues topic, object serialize, object value, bint is_key):
        try:
            return serialize(value)
        except Exception as error:
            raise self.host.serialization_failed(error, topic.name, value, is_key)


cdef inline int64_t clock_ms(clockid_t clock) noexcept:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef inline int read_field(object data, const char** start, Py_ssize_t* size) noexcept:
    """The bytes of a key or value: of bytes, of text as UTF-8, or none for None."""
    if PyBytes_CheckExact(data):
        start[0] = PyBytes_AS_STRING(data)
        size[0] = PyBytes_GET_SIZE(data)
    elif data is None:
        start[0] = NULL
    elif PyUnicode_CheckExact(data):
        start[0] = PyUnicode_AsUTF8AndSize(data, size)
        if start[0] is NULL:
            PyErr_Clear()
            return ODD
    else:
        return ODD
    return ORDINARY


cdef class Sending:
    """The base of a sync producer: `send` is compiled, without another Python call."""

    cdef Intake intake

    def _begin_sending(self, Intake intake):
        self.intake = intake

    def send(self, topic, value=None, *, key=None, headers=None, partition=None, timestamp_ms=None):
        """Send a record. Returns a receipt at once, unless the buffer is full or the topic is not known yet: then it
        waits for up to `max.block.ms`.

        The producer's serializers convert keys and values to bytes; without a serializer they must be bytes or text.
        Records with the same key go to the same partition, unless `partition` is given.
        """
        if self.intake is None:
            raise TypeError("Producer.__init__ was not called: a class derived from it calls super().__init__()")
        return self.intake.put(topic, value, key, headers, partition, timestamp_ms)


def largest_size(bytes key, bytes value, list headers not None):
    """The largest possible size of a record, wherever it is in a batch. `headers` are plain pairs."""
    return largest_record(
        0 if key is None else len(key), 0 if value is None else len(value), len(headers), headers_size(headers)
    )


cdef Py_ssize_t largest_record(
    Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t header_count, Py_ssize_t headers_bytes
) noexcept:
    return RECORD_OVERHEAD + key_size + value_size + headers_bytes + varint_size(header_count)
