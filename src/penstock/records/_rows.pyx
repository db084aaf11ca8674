# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Appends the rows of a table to a producer's batches, without a Python object per row.

A row is appended as by `send` (`_intake.Intake.add`), but its bytes come from Arrow buffers (`table_rows.Rows`), and
it gets an entry in `spans` instead of a receipt. A span is a run of consecutive rows in a batch; `span_of_row` has the
index of each row's span, so that a failed batch can name its rows.

Python code runs only where a batch begins or ends (`host.choose`, `host.opened`, `host.filled`). No other thread runs
between two of those calls, which makes each append atomic.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t

from penstock.records._appender cimport ProducerBatch, murmur2_of
from penstock.records._intake cimport Intake, PartitionQueue, Span, TopicQueues, largest_record
from penstock.records._layout cimport HEADER_BYTES
from penstock.records._writing cimport varint_size, write_field, write_varint

from array import array

from penstock.records.table_rows import Fault


cdef class Held:
    """The bytes of a buffer, whatever its element type, for as long as this lives."""

    cdef Py_buffer view
    cdef bint is_held

    def __init__(self, buffer):
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.is_held = True

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)

    cdef const uint8_t* start(self) noexcept:
        """Never NULL, so that an empty value is not taken for a null."""
        return <const uint8_t*>self.view.buf if self.view.len else <const uint8_t*>b""


cdef class Column:
    """The buffers of a column, held, and where they start. Without buffers every row is null."""

    cdef Held held_data
    cdef Held held_offsets
    cdef Held held_validity
    cdef const uint8_t* data
    cdef const uint8_t* validity
    cdef const int32_t* offsets
    cdef const int64_t* large_offsets
    cdef Py_ssize_t first
    cdef bint is_there

    def __init__(self, first=0, data=None, validity=None, offsets=None, is_large=False):
        self.first = first
        self.is_there = data is not None or offsets is not None
        if data is not None:
            self.held_data = Held(data)
            self.data = self.held_data.start()
        if validity is not None:
            self.held_validity = Held(validity)
            self.validity = self.held_validity.start()
        if offsets is not None:
            self.held_offsets = Held(offsets)
            if is_large:
                self.large_offsets = <const int64_t*>self.held_offsets.start()
            else:
                self.offsets = <const int32_t*>self.held_offsets.start()

    cdef inline bint has(self, Py_ssize_t row) noexcept:
        cdef Py_ssize_t at = self.first + row
        return self.is_there and (self.validity is NULL or (self.validity[at >> 3] >> (at & 7)) & 1)

    cdef inline const char* read(self, Py_ssize_t row, Py_ssize_t* size) noexcept:
        """The bytes of a row; NULL if it is null."""
        cdef Py_ssize_t at = self.first + row
        size[0] = 0
        if not self.has(row):
            return NULL
        if self.offsets is not NULL:
            size[0] = self.offsets[at + 1] - self.offsets[at]
            return <const char*>self.data + self.offsets[at]
        size[0] = self.large_offsets[at + 1] - self.large_offsets[at]
        return <const char*>self.data + self.large_offsets[at]

    cdef inline int32_t read32(self, Py_ssize_t row) noexcept:
        return (<const int32_t*>self.data)[self.first + row]

    cdef inline int64_t read64(self, Py_ssize_t row) noexcept:
        return (<const int64_t*>self.data)[self.first + row]


cdef Column bytes_column(rows):
    if rows is None:
        return Column()
    return Column(rows.first, rows.data, rows.validity, rows.offsets, rows.is_large)


cdef Column number_column(rows):
    return Column() if rows is None else Column(rows.first, rows.data, rows.validity)


cdef class RowAppender:
    """Appends the rows of one record batch. `wanted_bytes` is the size of the next row if the buffer was full."""

    cdef readonly list spans
    cdef readonly object span_of_row
    cdef readonly Py_ssize_t next_row
    cdef readonly Py_ssize_t wanted_bytes
    cdef Intake intake
    cdef list topics
    cdef Py_ssize_t count
    cdef Py_ssize_t record_bytes_max
    cdef bint stops_when_filled
    cdef Column key
    cdef Column value
    cdef Column topic
    cdef Column partition
    cdef Column timestamp
    cdef Column headers
    cdef Column names
    cdef Column values
    cdef int64_t timestamps_per_ms
    cdef int32_t[::1] span_numbers

    def __init__(self, Intake intake, list topics, rows, *, record_bytes_max, stops_when_filled=False):
        self.intake = intake
        self.topics = topics
        self.count = rows.row_count
        self.record_bytes_max = record_bytes_max
        self.stops_when_filled = stops_when_filled
        self.key = bytes_column(rows.key)
        self.value = bytes_column(rows.value)
        self.topic = number_column(rows.topic)
        self.partition = number_column(rows.partition)
        self.timestamp = number_column(rows.timestamp)
        self.timestamps_per_ms = rows.timestamps_per_ms
        headers = rows.headers
        if headers is None:
            self.headers = self.names = self.values = Column()
        else:
            self.headers = Column(headers.first, None, headers.validity, headers.offsets)
            self.names, self.values = bytes_column(headers.names), bytes_column(headers.values)
        self.spans = []
        self.span_of_row = array("i", bytes(4 * self.count))
        if self.count:
            self.span_numbers = self.span_of_row

    def fault(self):
        """The first row that cannot be sent, and why; to be called before any row is appended."""
        cdef Py_ssize_t row
        cdef int found
        for row in range(self.count):
            found = self.fault_of(row)
            if found:
                return row, Fault(found)
        return None

    def size_of(self, Py_ssize_t row):
        """The largest size of a row, in a batch of its own."""
        return HEADER_BYTES + self.largest_size(row)

    def append(self):
        """Append as many rows as fit; True when all are appended. If it stops because a batch is full, call it again.
        """
        cdef Intake intake = self.intake
        cdef TopicQueues topic = self.topics[0] if self.topics else None
        cdef PartitionQueue queue
        cdef ProducerBatch batch
        cdef bint is_sticky, is_opened, is_filled
        cdef const char* key
        cdef const char* value
        cdef Py_ssize_t row, key_size, value_size, size, whole_size, headers_bytes
        cdef Py_ssize_t header_start = 0, header_end = 0
        cdef int64_t timestamp
        cdef int64_t now_ms = intake.wall()
        while self.next_row < self.count:
            row = self.next_row
            if self.topic.is_there:
                topic = <TopicQueues>PyList_GET_ITEM(self.topics, self.topic.read32(row))
            key = self.key.read(row, &key_size)
            value = self.value.read(row, &value_size)
            headers_bytes = self.headers_of(row, &header_start, &header_end) if self.headers.is_there else 0
            size = largest_record(key_size, value_size, header_end - header_start, headers_bytes)
            is_filled = is_opened = False
            if self.partition.has(row):
                is_sticky = False
                queue = <PartitionQueue>PyList_GET_ITEM(topic.queues, self.partition.read32(row))
            elif key is not NULL and not intake.ignores_keys:
                is_sticky = False
                queue = <PartitionQueue>PyList_GET_ITEM(
                    topic.queues,
                    (murmur2_of(<const uint8_t*>key, key_size) & 0x7FFFFFFF) % <int32_t>len(topic.queues),
                )
            else:
                is_sticky = True
                queue = topic.sticky
                if queue is None or topic.sticky_bytes + HEADER_BYTES + size > intake.batch_bytes_max:
                    # As in `Intake.add`: not before the batch is full.
                    if queue is not None and queue.open is not None:
                        if queue.open.used + size > intake.batch_bytes_max:
                            queue.close_batch()
                            is_filled = True
                    if queue is None or queue.open is None:
                        topic.sticky_bytes = 0
                        queue = topic.sticky = intake.host.choose(topic)
            # From here on no Python code runs, so no other thread does.
            if not intake.is_open or size + HEADER_BYTES > intake.available_bytes:
                self.wanted_bytes = size + HEADER_BYTES
                if is_filled:
                    intake.host.filled()
                return False
            batch = queue.open
            if batch is not None and batch.used + size > intake.batch_bytes_max:
                queue.close_batch()
                batch = None
                is_filled = True
            if batch is None:
                intake.open_batch(queue)
                batch = queue.open
                is_opened = True
            timestamp = now_ms
            if self.timestamp.has(row):
                timestamp = self.timestamp.read64(row)
                if self.timestamps_per_ms != 1:
                    timestamp //= self.timestamps_per_ms
            size = batch.record_size(
                timestamp, key_size, key is not NULL, value_size, value is not NULL, header_end - header_start,
                headers_bytes,
            )
            whole_size = size + varint_size(size)
            self.write(batch, size, timestamp, key, key_size, value, value_size, header_start, header_end)
            batch.charged_bytes += whole_size
            intake.available_bytes -= whole_size
            if is_sticky:
                topic.sticky_bytes += whole_size
            self.note(row, queue, batch)
            self.next_row = row + 1
            if not queue.is_reported:
                queue.is_reported = True
                intake.news.append(queue)
            if is_filled:
                intake.host.filled()
                now_ms = intake.wall()
                if self.stops_when_filled:
                    self.wanted_bytes = 0
                    return self.next_row == self.count
            elif is_opened:
                intake.host.opened()
        return True

    cdef int write(
        self, ProducerBatch batch, Py_ssize_t size, int64_t timestamp, const char* key, Py_ssize_t key_size,
        const char* value, Py_ssize_t value_size, Py_ssize_t header, Py_ssize_t header_end
    ) except -1:
        cdef Py_ssize_t field_size
        cdef const char* field
        cdef uint8_t* at = batch.begin_record(
            size, timestamp, key, key_size, value, value_size, self.intake.batch_bytes_max
        )
        at = write_varint(at, header_end - header)
        while header < header_end:
            field = self.names.read(header, &field_size)
            at = write_field(at, field, field_size)
            field = self.values.read(header, &field_size)
            at = write_field(at, field, field_size)
            header += 1
        batch.end_record(at)
        return 0

    cdef int note(self, Py_ssize_t row, PartitionQueue queue, ProducerBatch batch) except -1:
        """The row is the last of the batch."""
        cdef int32_t index = batch.count - 1
        cdef Span span = queue.span
        if (
            span is not None
            and span.owner is self.spans
            and span.batch is batch
            and span.first + span.count == index
        ):
            span.count += 1
        else:
            # Making an object may start the garbage collector, and let another thread append; the index is known by
            # then.
            span = Span.__new__(Span)
            span.owner = self.spans
            span.batch = batch
            span.first = index
            span.count = 1
            span.number = <int32_t>len(self.spans)
            self.spans.append(span)
            queue.span = span
        self.span_numbers[row] = span.number
        return 0

    cdef int fault_of(self, Py_ssize_t row) except -1:
        cdef int32_t topic = 0
        cdef int32_t partition
        cdef Py_ssize_t header = 0, header_end = 0
        cdef Py_ssize_t size
        if self.topic.is_there:
            if not self.topic.has(row):
                return 1
            topic = self.topic.read32(row)
        if self.partition.has(row):
            partition = self.partition.read32(row)
            if not 0 <= partition < len((<TopicQueues>PyList_GET_ITEM(self.topics, topic)).queues):
                return 2
        if self.timestamp.has(row) and self.timestamp.read64(row) < 0:
            return 3
        if self.headers.is_there:
            self.headers_of(row, &header, &header_end)
            while header < header_end:
                if self.names.read(header, &size) is NULL:
                    return 4
                header += 1
        return 5 if HEADER_BYTES + self.largest_size(row) > self.record_bytes_max else 0

    cdef Py_ssize_t largest_size(self, Py_ssize_t row) except -1:
        cdef Py_ssize_t key_size, value_size
        cdef Py_ssize_t headers_bytes = 0, header_start = 0, header_end = 0
        self.key.read(row, &key_size)
        self.value.read(row, &value_size)
        if self.headers.is_there:
            headers_bytes = self.headers_of(row, &header_start, &header_end)
        return largest_record(key_size, value_size, header_end - header_start, headers_bytes)

    cdef Py_ssize_t headers_of(self, Py_ssize_t row, Py_ssize_t* start, Py_ssize_t* end) noexcept:
        """The header pairs of a row, and their size."""
        cdef Py_ssize_t at = self.headers.first + row
        cdef Py_ssize_t header, size
        cdef Py_ssize_t taken = 0
        start[0] = end[0] = 0
        if self.headers.has(row):
            start[0], end[0] = self.headers.offsets[at], self.headers.offsets[at + 1]
        for header in range(start[0], end[0]):
            self.names.read(header, &size)
            taken += varint_size(size) + size
            taken += 1 if self.values.read(header, &size) is NULL else varint_size(size) + size
        return taken
