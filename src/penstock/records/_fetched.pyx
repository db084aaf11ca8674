# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The records of one partition in a fetch response, as messages or as columns.

`FetchedRecords` makes a `Message` only when it is requested. It skips control records, records before the requested
position and, if `aborted` is given, the records of aborted transactions.

Invariant: a reader that has consumed everything so far continues at `next_offset`. A record that cannot be returned
(damaged bytes, a deserializer that raises) is never skipped: the next call raises again.

As in `_kernel.pyx`, nothing is read before it is known to be inside the buffer.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock.records._bytes cimport load16, load32, load64, make_bytes
from penstock.records._columns cimport ColumnBuilder, records_max
from penstock.records._kernel cimport BatchReader, checksum, make_headers
from penstock.records._layout cimport (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TIMESTAMP_TYPE_MASK,
)
from penstock.records._message cimport NO_LEADER_EPOCH, Message

from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.records.errors import CorruptBatch, RecordsError, UnsupportedMagic
from penstock.records.old_messages import old_message_as_batch, read_old_message


cdef extern from "Python.h":
    void PyObject_GC_Track(PyObject* object)
    void PyObject_GC_UnTrack(PyObject* object)
    int PyObject_GC_IsTracked(object thing)
    int PyObject_IS_GC(object thing)


cdef enum:
    TRANSACTIONAL_MASK = 0x10
    CONTROL_MASK = 0x20
    MESSAGE_BYTES_MIN = 14  # of formats 0 and 1, after offset and size


cdef object EMPTY = ()
cdef object DECOMPRESSED_BYTES_DEFAULT = DECOMPRESSED_BYTES_MAX


cdef class Held:
    """Bytes that stay in place. A separate class, which the garbage collector does not traverse: it would clear a
    memoryview while its bytes are still in use."""

    cdef Py_buffer buffer
    cdef bint is_held

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.is_held = True

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)


@cython.final
cdef class FetchedRecords:
    """The bytes of one partition in a fetch response; an iterator of messages.

    `aborted` has pairs of producer id and first offset, as in the response; None reads uncommitted records too.
    `decode_key` and `decode_value` deserialize. `explain(error, offset, data, is_key)` makes the exception for a
    record that cannot be returned; `data` is None if the batch is damaged.

    `end_offset` and `end_epoch` say where the next fetch begins and which leader epoch precedes it. `leader_epoch` is
    that of the batch before `next_offset`, -1 before the first.
    """

    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly int64_t next_offset
    cdef readonly int32_t leader_epoch
    cdef readonly int64_t end_offset
    cdef readonly int32_t end_epoch
    cdef readonly bint is_exhausted
    cdef readonly Py_ssize_t size_bytes
    cdef object view
    cdef Held held
    cdef const uint8_t* data
    cdef object aborted  # (first offset, producer id), sorted; None for a reader of all records
    cdef Py_ssize_t aborted_index
    cdef set aborted_producers
    cdef bint checks_crcs
    cdef object decode_key
    cdef object decode_value
    cdef object explain
    cdef object limit_bytes
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef Py_ssize_t batch_start
    cdef int64_t next_batch_offset
    cdef BatchReader reader
    cdef list pending
    cdef object failure

    def __cinit__(
        self,
        str topic not None,
        int32_t partition,
        records,
        int64_t position,
        *,
        aborted=None,
        bint checks_crcs=True,
        decode_key=None,
        decode_value=None,
        explain=None,
        limit_bytes=DECOMPRESSED_BYTES_DEFAULT,
    ):
        self.topic = topic
        self.partition = partition
        self.next_offset = position
        self.leader_epoch = NO_LEADER_EPOCH
        self.view = records
        self.held = Held(records)
        self.data = <const uint8_t*>self.held.buffer.buf
        self.size_bytes = self.held.buffer.len
        if aborted is not None:
            self.aborted = sorted([(offset, producer) for producer, offset in aborted])
            self.aborted_producers = set()
        self.checks_crcs = checks_crcs
        self.decode_key = decode_key
        self.decode_value = decode_value
        self.explain = explain
        self.limit_bytes = limit_bytes
        self.next_batch_offset = position
        self.pending = []
        self.survey()

    cdef void survey(self) noexcept:
        """Walk the headers up to an incomplete one, or to an invalid one, for which `next_batch` raises."""
        cdef const uint8_t* start = self.data
        cdef Py_ssize_t at = 0
        cdef int64_t size, offset
        self.end_offset = self.next_offset
        self.end_epoch = NO_LEADER_EPOCH
        while self.size_bytes - at > MAGIC_AT:
            size = <int64_t><int32_t>load32(start + at + LENGTH_AT) + LENGTH_BYTES
            if size < size_min(start[at + MAGIC_AT]):
                at = self.size_bytes
                break
            if size > self.size_bytes - at:
                break
            if start[at + MAGIC_AT] > MAGIC:
                at = self.size_bytes
                break
            offset = end_offset_of(start + at)
            if offset > self.end_offset:
                self.end_offset = offset
                self.end_epoch = epoch_of(start + at)
            at += size
        self.end = at

    def __iter__(self):
        return self

    def __next__(self):
        message = self.next_message()
        if message is None:
            raise StopIteration
        return message

    def take(self, Py_ssize_t count_max):
        """Up to `count_max` messages; fewer only at the end, or before one that cannot be returned."""
        cdef list messages = []
        cdef Py_ssize_t count = 0
        try:
            while count < count_max:
                message = self.next_message()
                if message is None:
                    break
                messages.append(message)
                count += 1
        except Exception:
            if count == 0:  # otherwise it is raised when its turn comes
                raise
        return messages

    def fill(self, ColumnBuilder builder not None, *, int64_t end_offset=INT64_MAX, Py_ssize_t rows_max):
        """Append whole batches to `builder` until it has `rows_max` rows; False if nothing is left below `end_offset`."""
        if self.failure is not None:
            raise self.failure
        if self.reader is not None:  # half of a batch was returned as messages
            self.reader = None
            self.at = self.batch_start
        self.pending.clear()
        self.expect(builder, end_offset, rows_max)
        try:
            while builder.row_count < rows_max:
                if self.next_offset >= end_offset:
                    return False
                if not self.next_batch():
                    self.is_exhausted = True
                    return False
                if <int64_t>load64(self.data + self.batch_start) >= end_offset:
                    self.at = self.batch_start
                    return False
                self.fill_batch(builder, end_offset)
                if self.next_batch_offset > end_offset:  # for the reader of the rest
                    self.at = self.batch_start
                self.pass_to(min(self.next_batch_offset, end_offset))
        except RecordsError as error:
            self.fail(error)
        return True

    def drop(self):
        """Return nothing more: the reader continues elsewhere."""
        self.reader = None
        self.failure = None
        self.pending.clear()
        self.next_batch_offset = self.next_offset
        self.at = self.end
        self.is_exhausted = True

    cdef int fill_batch(self, ColumnBuilder builder, int64_t end_offset) except -1:
        if self.data[self.batch_start + MAGIC_AT] == MAGIC:
            builder.append_at(
                self.view, &self.held.buffer, self.batch_start, self.next_offset, end_offset, self.limit_bytes
            )
            return 0
        batch = old_message_as_batch(memoryview(self.view)[self.batch_start : self.at], self.limit_bytes)
        builder.append(batch, 0, first_offset=self.next_offset, end_offset=end_offset, limit_bytes=self.limit_bytes)
        return 0

    cdef int expect(self, ColumnBuilder builder, int64_t end_offset, Py_ssize_t rows_max) except -1:
        """Reserve space at once for all batches, as far as headers tell: memory that grows is copied."""
        cdef Py_ssize_t at = self.at
        cdef Py_ssize_t rows = 0
        cdef int64_t payload_bytes = 0
        cdef int64_t size
        cdef const uint8_t* head
        while self.end - at >= HEADER_BYTES and builder.row_count + rows < rows_max:
            head = self.data + at
            size = <int64_t><int32_t>load32(head + LENGTH_AT) + LENGTH_BYTES
            if size < size_min(head[MAGIC_AT]) or <int64_t>load64(head) >= end_offset:
                break
            at += size
            # The size of a compressed batch is known when it is decompressed; the declared size is not trusted.
            if head[MAGIC_AT] == MAGIC and not load16(head + ATTRIBUTES_AT) & (COMPRESSION_MASK | CONTROL_MASK):
                rows += records_max(<int32_t>load32(head + RECORD_COUNT_AT), size - HEADER_BYTES)
                payload_bytes += size - HEADER_BYTES
        if payload_bytes <= INT32_MAX:  # otherwise `append_at` finds which batch is too much
            builder.reserve(rows, payload_bytes)
        return 0

    cdef Message next_message(self):
        """The next message, decoded; one that cannot be decoded is kept for the next call."""
        cdef Message message
        if self.pending:
            message = self.pending.pop()
        else:
            message = self.read()
        if message is None:
            self.is_exhausted = True
            return None
        if self.decode_key is not None or self.decode_value is not None:
            self.decode(message)
        self.next_offset = message.offset + 1
        return message

    cdef int decode(self, Message message) except -1:
        key, value = message.key, message.value
        is_key = True
        try:
            if key is not None and self.decode_key is not None:
                key = self.decode_key(key)
            is_key = False
            if value is not None and self.decode_value is not None:
                value = self.decode_value(value)
        except BaseException as error:
            self.pending.append(message)
            if self.explain is not None and isinstance(error, Exception):
                data = message.key if is_key else message.value
                raise self.explain(error, message.offset, data, is_key) from error
            raise
        message.key = key
        message.value = value
        # A decoded object may refer back to the message; bytes cannot.
        if (PyObject_IS_GC(key) or PyObject_IS_GC(value)) and not PyObject_GC_IsTracked(message):
            PyObject_GC_Track(<PyObject*>message)
        return 0

    cdef Message read(self):
        cdef int64_t offset
        if self.failure is not None:
            raise self.failure
        try:
            while True:
                if self.pending:
                    return self.pending.pop()
                if self.reader is None:
                    self.pass_to(self.next_batch_offset)
                    if not self.next_batch():
                        return None
                    self.open_batch()
                elif not self.reader.step():
                    self.reader = None
                else:
                    offset = self.reader.offset()
                    if offset >= self.next_offset:
                        return self.make_message(offset)
        except RecordsError as error:
            self.fail(error)

    cdef int fail(self, error) except -1:
        """Return nothing from now on."""
        self.failure = error
        if self.explain is not None:
            self.failure = self.explain(error, self.next_offset, None, False)
            raise self.failure from error
        raise error

    cdef inline Message make_message(self, int64_t offset):
        cdef BatchReader reader = self.reader
        cdef Message message = Message.__new__(Message)
        # It refers to no other objects, so the garbage collector need not traverse it: there may be millions.
        PyObject_GC_UnTrack(<PyObject*>message)
        message.topic = self.topic
        message.partition = self.partition
        message.offset = offset
        message.timestamp_ms = reader.timestamp()
        message.is_append_time = reader.is_append_time
        message.epoch = self.leader_epoch
        message.key = make_bytes(reader.record.key, reader.record.key_size)
        message.value = make_bytes(reader.record.value, reader.record.value_size)
        message.headers = EMPTY if reader.record.header_count == 0 else make_headers(&reader.record, reader.end)
        return message

    cdef bint next_batch(self) except -1:
        """Find the next batch with visible records; the offsets of others are skipped."""
        cdef const uint8_t* head
        cdef int64_t size
        cdef uint32_t crc, stored_crc
        cdef int magic, attributes
        cdef bint is_aborted
        while self.at < self.end:
            head = self.data + self.at
            magic = head[MAGIC_AT]
            size = <int64_t><int32_t>load32(head + LENGTH_AT) + LENGTH_BYTES
            if magic > MAGIC:
                raise UnsupportedMagic(f"format {magic} at {self.at} is not batch format {MAGIC}")
            if size < size_min(magic) or size > self.size_bytes - self.at:
                raise CorruptBatch(
                    f"the batch at {self.at} claims {size} of {self.size_bytes - self.at} bytes"
                )
            self.batch_start = self.at
            self.at += size
            self.next_batch_offset = end_offset_of(head)
            self.leader_epoch = epoch_of(head)
            if magic < MAGIC:
                return True
            if self.checks_crcs:
                crc = checksum(head + ATTRIBUTES_AT, size - ATTRIBUTES_AT)
                stored_crc = load32(head + CRC_AT)
                if crc != stored_crc:
                    raise CorruptBatch(
                        f"the batch at {self.batch_start} has checksum {crc:#x}, its header says {stored_crc:#x}"
                    )
            attributes = load16(head + ATTRIBUTES_AT)
            is_aborted = self.aborted is not None and self.is_aborted_batch(head, attributes)
            if not attributes & CONTROL_MASK and not is_aborted:
                return True
            if is_aborted and attributes & CONTROL_MASK and self.is_abort_marker():
                self.aborted_producers.discard(<int64_t>load64(head + PRODUCER_ID_AT))
            self.pass_to(self.next_batch_offset)
        return False

    cdef bint is_aborted_batch(self, const uint8_t* head, int attributes) except -1:
        """Whether the batch belongs to an aborted transaction."""
        cdef int64_t producer_id = <int64_t>load64(head + PRODUCER_ID_AT)
        cdef list aborted = self.aborted
        if producer_id < 0:
            return False
        while self.aborted_index < len(aborted) and aborted[self.aborted_index][0] < self.next_batch_offset:
            self.aborted_producers.add(aborted[self.aborted_index][1])
            self.aborted_index += 1
        return attributes & TRANSACTIONAL_MASK != 0 and producer_id in self.aborted_producers

    cdef bint is_abort_marker(self) except -1:
        cdef BatchReader reader = BatchReader(self.view, self.batch_start, self.limit_bytes)
        if not reader.step():
            return False
        return reader.record.key is not NULL and reader.record.key_size >= 4 and load32(reader.record.key) == 0

    cdef int open_batch(self) except -1:
        cdef Message message
        if self.data[self.batch_start + MAGIC_AT] == MAGIC:
            self.reader = BatchReader(self.view, self.batch_start, self.limit_bytes)
            return 0
        records, timestamp_type = read_old_message(memoryview(self.view)[self.batch_start : self.at], self.limit_bytes)
        for offset, timestamp_ms, key, value, headers in reversed(records):
            if offset >= self.next_offset:
                self.pending.append(
                    Message(self.topic, self.partition, offset, timestamp_ms, timestamp_type, key, value, headers)
                )
        return 0

    cdef inline void pass_to(self, int64_t offset) noexcept:
        if offset > self.next_offset:
            self.next_offset = offset


@cython.final
cdef class MessageStream:
    """An endless iterator of messages. `refill` returns the next source and how many messages to take from it at most.

    It is called only when the next message is requested, so that a rebalance or a commit happens between two messages.
    None ends the stream.
    """

    cdef object refill
    cdef FetchedRecords source
    cdef Py_ssize_t left

    def __cinit__(self, refill):
        self.refill = refill

    def __iter__(self):
        return self

    def __next__(self):
        cdef Message message
        cdef FetchedRecords source
        while True:
            source = self.source  # kept alive: a decoder or another thread may replace it
            if source is not None and self.left > 0:
                message = source.next_message()
                if message is not None:
                    self.left -= 1
                    return message
            self.source = None
            following = self.refill()
            if following is None:
                raise StopIteration
            self.source, self.left = following


cdef inline int64_t size_min(int magic) noexcept nogil:
    return LENGTH_BYTES + MESSAGE_BYTES_MIN if magic < MAGIC else HEADER_BYTES


cdef inline int64_t end_offset_of(const uint8_t* head) noexcept nogil:
    """The offset after the batch or message."""
    if head[MAGIC_AT] < MAGIC:
        return <int64_t>(load64(head) + 1)
    return <int64_t>(load64(head) + <uint64_t><int64_t><int32_t>load32(head + LAST_OFFSET_DELTA_AT) + 1)


cdef inline int32_t epoch_of(const uint8_t* head) noexcept nogil:
    return NO_LEADER_EPOCH if head[MAGIC_AT] < MAGIC else <int32_t>load32(head + LEADER_EPOCH_AT)
