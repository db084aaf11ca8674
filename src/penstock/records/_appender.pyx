# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Batches to which a producer appends records one by one, and the receipts of their records.

A `ProducerBatch` lives from its first record until all of them are acknowledged or have failed. It is sealed
(compressed, and stamped with producer id, epoch, sequence and CRC), perhaps several times because a retry may need
another epoch. It is split if the broker finds it too large, and is completed or failed exactly once. A `Receipt` is a
batch and an index. Batches do not know their receipts, except those with a callback, so a receipt that is dropped
costs nothing.

Records are written in wire form after the space for the header, so sealing an uncompressed batch copies nothing.

Invariant: no function lets another thread run between a check and the write that relies on it, which makes an append
atomic. Functions that call Python code (callbacks, waits) say so.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock.records._builder cimport compressed, headers_size, write_batch_header, write_headers
from penstock.records._bytes cimport plain_bytes
from penstock.records._layout cimport HEADER_BYTES
from penstock.records._writing cimport varint_size, write_field, write_varint

import asyncio
from _thread import allocate_lock

from penstock.records._kernel import iterate_records
from penstock.records.batch import Compression
from penstock.records.delivery import Delivery, plain_headers, resolve, run_callback


cdef extern from "Python.h":
    ctypedef struct PyByteArrayObject:
        Py_ssize_t ob_exports


cdef enum:
    TRANSACTIONAL_MASK = 0x10


def murmur2(data):
    """Kafka's hash of a key, as a signed 32-bit number."""
    cdef const uint8_t[::1] view = data
    return <int32_t>murmur2_of(&view[0] if view.shape[0] else NULL, view.shape[0])


cdef uint32_t murmur2_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t mixed = 0x9747B28CU ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t at = 0
    while at + 4 <= size:
        word = data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16 | <uint32_t>data[at + 3] << 24
        word *= 0x5BD1E995
        word ^= word >> 24
        word *= 0x5BD1E995
        mixed = (mixed * 0x5BD1E995) ^ word
        at += 4
    if size - at == 3:
        mixed ^= <uint32_t>data[at + 2] << 16
    if size - at >= 2:
        mixed ^= <uint32_t>data[at + 1] << 8
    if size - at >= 1:
        mixed ^= data[at]
        mixed *= 0x5BD1E995
    mixed ^= mixed >> 13
    mixed *= 0x5BD1E995
    return mixed ^ (mixed >> 15)


cdef class ProducerBatch:
    def __cinit__(self, topic, int32_t partition, waiting=None):
        self.topic = topic
        self.partition = partition
        self.waiting = waiting
        self.used = HEADER_BYTES
        self.base_offset = -1
        self.append_time_ms = -1
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1

    def __init__(self, topic, partition, waiting=None):
        pass

    @property
    def record_count(self):
        return self.count

    @property
    def size_bytes(self):
        """Uncompressed size, with the header."""
        return self.used

    cdef int open(self, Py_ssize_t capacity, object buffer) except -1:
        """Set the buffer: `buffer`, which has that many bytes and is not used elsewhere, or a new one."""
        self.buffer = PyByteArray_FromStringAndSize(NULL, capacity) if buffer is None else buffer
        self.start = <uint8_t*>PyByteArray_AS_STRING(self.buffer)
        self.capacity = capacity
        return 0

    cdef inline Py_ssize_t record_size(
        self, int64_t timestamp, Py_ssize_t key_size, bint has_key, Py_ssize_t value_size, bint has_value,
        Py_ssize_t header_count, Py_ssize_t headers_bytes
    ) noexcept:
        """Size of the next record, without the varint of its length."""
        cdef int64_t delta = 0 if self.count == 0 else <int64_t>(<uint64_t>timestamp - <uint64_t>self.base_timestamp)
        return (
            1
            + varint_size(delta)
            + varint_size(self.count)
            + (varint_size(key_size) + key_size if has_key else 1)
            + (varint_size(value_size) + value_size if has_value else 1)
            + varint_size(header_count)
            + headers_bytes
        )

    cdef int put(
        self, Py_ssize_t size, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value,
        Py_ssize_t value_size, list headers, Py_ssize_t limit
    ) except -1:
        """Write a record of this `record_size`."""
        cdef uint8_t* at = self.begin_record(size, timestamp, key, key_size, value, value_size, limit)
        if headers is None:
            at[0] = 0
            at += 1
        else:
            at = write_varint(at, len(headers))
            at = write_headers(at, headers)
        self.end_record(at)
        return 0

    cdef uint8_t* begin_record(
        self, Py_ssize_t size, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value,
        Py_ssize_t value_size, Py_ssize_t limit
    ) except NULL:
        """Write a record except its headers; returns where they go. A full buffer doubles, up to `limit` if that is
        enough."""
        cdef Py_ssize_t wanted = self.used + 5 + size
        cdef Py_ssize_t capacity
        cdef uint8_t* at
        if wanted > self.capacity:
            if wanted > INT32_MAX:
                raise ValueError(f"a batch of {wanted} bytes is too large")
            capacity = max(wanted, min(2 * self.capacity, limit))
            if self.buffer is None:
                self.open(capacity, None)
            else:
                PyByteArray_Resize(self.buffer, capacity)
                self.start = <uint8_t*>PyByteArray_AS_STRING(self.buffer)
                self.capacity = capacity
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        at = write_varint(self.start + self.used, size)
        at[0] = 0  # attributes: none is defined
        at = write_varint(at + 1, <int64_t>(<uint64_t>timestamp - <uint64_t>self.base_timestamp))
        at = write_varint(at, self.count)
        at = write_field(at, key, key_size)
        return write_field(at, value, value_size)

    cdef void end_record(self, uint8_t* at) noexcept:
        """The record is complete, and ends at `at`."""
        self.used = at - self.start
        self.count += 1

    def append(self, int64_t timestamp, key, value, headers=()):
        """Append a record of bytes or None and header pairs; returns its receipt."""
        if self.sealed is not None or self.is_done:
            raise ValueError("a batch that was sealed takes no more records")
        cdef bytes key_bytes = plain_bytes(key)
        cdef bytes value_bytes = plain_bytes(value)
        cdef list pairs = plain_headers(headers) if headers else None
        cdef Py_ssize_t key_size = 0 if key_bytes is None else len(key_bytes)
        cdef Py_ssize_t value_size = 0 if value_bytes is None else len(value_bytes)
        cdef Py_ssize_t size = self.record_size(
            timestamp, key_size, key_bytes is not None, value_size, value_bytes is not None,
            0 if pairs is None else len(pairs), 0 if pairs is None else headers_size(pairs),
        )
        cdef const char* key_start = NULL
        cdef const char* value_start = NULL
        if key_bytes is not None:
            key_start = key_bytes
        if value_bytes is not None:
            value_start = value_bytes
        self.put(size, timestamp, key_start, key_size, value_start, value_size, pairs, INT32_MAX)
        cdef Receipt receipt = Receipt.__new__(Receipt)
        receipt.batch = self
        receipt.index = self.count - 1
        receipt.timestamp = timestamp
        return receipt

    def seal(self, compression=Compression.NONE, level=None, bint is_transactional=False):
        """The batch in wire form, with the current producer id, epoch and sequence.

        It takes no more records. Records are compressed the first time; after that only the header is written again.
        """
        if self.count == 0:
            raise ValueError("a batch has one record at least")
        if self.sealed is None:
            if compression:
                with memoryview(self.buffer) as view:
                    self.sealed = memoryview(compressed(view[: self.used], compression, level))
            else:
                self.sealed = memoryview(self.buffer)[: self.used]
            self.attributes = <int>compression | (TRANSACTIONAL_MASK if is_transactional else 0)
        cdef uint8_t[::1] out = self.sealed
        write_batch_header(
            &out[0], out.shape[0], 0, -1, self.attributes, self.count - 1, self.base_timestamp,
            self.max_timestamp, self.producer_id, self.producer_epoch, self.base_sequence, self.count,
        )
        return self.sealed

    def split(self, Py_ssize_t limit_bytes):
        """Split into batches of at most `limit_bytes`, or of one record, which replace this one: receipts refer to
        them from now on. Calls no Python code of the application."""
        if self.sealed is None:
            raise ValueError("only a batch that was sealed can be split")
        cdef list parts = []
        cdef ProducerBatch part = None
        cdef Receipt receipt
        for record in iterate_records(self.sealed):
            size = len(record.key or b"") + len(record.value or b"")
            if part is None or part.used + size > limit_bytes:
                part = ProducerBatch(self.topic, self.partition, self.waiting)
                part.created_ms = self.created_ms
                part.attempts = self.attempts
                parts.append(part)
            part.append(record.timestamp, record.key, record.value, record.headers)
        callbacks, self.callbacks = self.callbacks, None
        self.parts = parts
        for receipt, callback in callbacks or ():
            receipt.settle()
            receipt.batch.add_callback(receipt, callback)
        self.open_gate()  # waiting threads check again, and find the parts
        self.sealed = self.buffer = None
        return parts

    def complete(self, int64_t base_offset, int64_t append_time_ms=-1):
        """The batch was written: wake waiting threads and call callbacks."""
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.finish()

    def fail(self, error, record_errors=None):
        """The batch was not written, and will not be. `record_errors` are exceptions by index, if they differ from
        `error`."""
        self.error = error
        self.record_errors = record_errors
        self.finish()

    cdef int finish(self) except -1:
        self.is_done = True
        self.open_gate()
        callbacks, self.callbacks = self.callbacks, None
        if callbacks is not None:
            for receipt, callback in callbacks:
                run_callback(callback, receipt)
        return 0

    def add_callback(self, receipt, callback):
        """False if it is too late: the batch is done, or was split."""
        wanted = (receipt, callback)
        made = []
        # Making objects may let other threads run; from here on none is made.
        if self.is_done or self.parts is not None:
            return False
        if self.callbacks is None:
            self.callbacks = made
        self.callbacks.append(wanted)
        return True

    def wait_for_change(self, timeout):
        """Return when the batch is done or was split; False after `timeout` seconds."""
        # A bare lock, which `finish` releases: an event of `threading` costs both sides several microseconds more.
        if self.gate is None:
            made = allocate_lock()
            made.acquire()
            if self.gate is None and not self.is_done and self.parts is None:  # another thread may have been faster
                self.gate = made
        gate = self.gate
        if gate is not None:
            if not gate.acquire(True, -1 if timeout is None else timeout):
                return False
            gate.release()  # for other waiting threads
        return True

    cdef int open_gate(self) except -1:
        gate, self.gate = self.gate, None
        if gate is not None:
            gate.release()
        return 0

    def parts_of(self, int32_t first, int32_t count):
        """Where these records are now, as batches with a first index and a count: here, or in the parts of a split
        batch."""
        cdef ProducerBatch part
        cdef int32_t start = 0, begin, end
        if self.parts is None:
            return [(self, first, count)]
        found = []
        for part in self.parts:
            begin, end = max(first, start), min(first + count, start + part.count)
            if begin < end:
                found += part.parts_of(begin - start, end - begin)
            start += part.count
        return found

    def mark_awaited(self, int32_t count):
        """The application waits for the result of this many of its records."""
        self.awaited_count += count

    def error_of(self, int32_t index):
        """Why a record was not written; None if it was."""
        if self.error is None or self.record_errors is None:
            return self.error
        return self.record_errors.get(index, self.error)

    @property
    def odd_records(self):
        """Indexes of records with an error of their own."""
        return sorted(self.record_errors or ())

    def watch(self, callback):
        """Call `callback(receipt)`, with a receipt of the last record, when the batch is done; now if it is."""
        cdef Receipt receipt = Receipt.__new__(Receipt)
        receipt.batch = self
        receipt.index = self.count - 1
        receipt.watch(callback)

    @property
    def has_unasked_failure(self):
        """Whether the batch failed and the application has not asked for the result of every record."""
        return self.error is not None and self.awaited_count < self.count

    cdef object take_buffer(self):
        """The buffer for another batch, once this one is done; None if it may still be in use."""
        buffer, self.buffer, self.sealed = self.buffer, None, None
        if buffer is not None and (<PyByteArrayObject*>buffer).ob_exports == 0:
            return buffer
        return None


# A receipt is made for every record and usually dropped at once: it is not tracked by the garbage collector, and is
# recycled (bench "clients": 40 ns a record). It is part of a cycle only until its batch is done, which clears
# callbacks.
@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Receipt:
    """The result of `send`: a future for the delivery of the record."""

    def __init__(self):
        raise TypeError("a receipt is what send() gives; it cannot be made by hand")

    cpdef settle(self):
        """If the batch was split, follow it to the part that has the record."""
        cdef ProducerBatch part
        while self.batch.parts is not None:
            for part in self.batch.parts:
                if self.index < part.count:
                    break
                self.index -= part.count
            if self.is_awaited:
                part.awaited_count += 1
            self.batch = part

    cdef int mark_awaited(self) except -1:
        self.settle()
        if not self.is_awaited:
            self.is_awaited = True
            self.batch.awaited_count += 1
        return 0

    cdef int wait(self, timeout) except -1:
        self.mark_awaited()
        while not self.batch.is_done:
            self.batch.waiting.wait_for(self.batch, timeout)
            self.settle()
        return 0

    cdef object failure(self):
        return self.batch.error_of(self.index)

    cdef object delivery(self):
        error = self.failure()
        if error is not None:
            raise error.with_traceback(None)
        return Delivery(
            self.batch.topic,
            self.batch.partition,
            self.batch.base_offset + self.index if self.batch.base_offset >= 0 else -1,
            self.batch.append_time_ms if self.batch.append_time_ms >= 0 else self.timestamp,
        )

    @property
    def topic(self):
        return self.batch.topic

    @property
    def partition(self):
        return self.batch.partition

    def done(self):
        """Whether the record was written or has failed."""
        self.settle()
        return self.batch.is_done

    def result(self, timeout=None):
        """Wait until the record is written and return where; raise if it was not. `timeout` is in seconds."""
        self.wait(timeout)
        return self.delivery()

    def exception(self, timeout=None):
        """Why the record was not written, or None if it was; waits like `result`."""
        self.wait(timeout)
        return self.failure()

    def add_done_callback(self, callback):
        """Call `callback(receipt)` when the record was written or has failed; now if it already is.

        It is called on the client's own thread or loop, so it must not block.
        """
        self.mark_awaited()
        self.watch(callback)

    def watch(self, callback):
        """Like `add_done_callback`, but does not count as asking for the result."""
        self.settle()
        while not self.batch.is_done:
            if self.batch.add_callback(self, callback):
                return
            self.settle()
        run_callback(callback, self)

    def outcome(self):
        """The delivery and the error, one of which is None, of a record that is done. Does not count as asking for the
        result."""
        error = self.failure()
        return (self.delivery(), None) if error is None else (None, error)

    def __await__(self):
        self.mark_awaited()
        if not self.batch.is_done:
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            self.watch(lambda receipt: resolve(future, loop))
            yield from future.__await__()
        return self.delivery()

    def __repr__(self):
        state = "pending" if not self.done() else "failed" if self.failure() is not None else "written"
        return f"<Receipt of {self.batch.topic}-{self.batch.partition}, {state}>"


def place_of(Receipt receipt):
    """The batch that has the receipt's record now, and the record's index in it."""
    receipt.settle()
    return receipt.batch, receipt.index
