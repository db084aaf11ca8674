# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Log compaction: finds the last offset of each key, and copies batches without outdated records.

Uncompressed batches outside of transactions are handled in long runs without the interpreter lock. For a transactional
or control batch the caller decides what is done with it, once per batch. The rules are Kafka's, and `OffsetMap`,
`add_batches` and `BatchFilter` list them.

The bytes come from disks. Lengths are checked before anything is read, and the CRC of every batch is checked:
compaction must not give a damaged batch a valid CRC.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from penstock.records._bytes cimport load16, load32, load64, store16, store32, store64
from penstock.records._crc32c cimport crc_by_instruction, crc_by_tables, has_crc_instruction, prepare_crc
from penstock.records._layout cimport (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    COMPRESSION_MASK,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    RECORD_COUNT_AT,
    TIMESTAMP_TYPE_MASK,
)
from penstock.records._record cimport RawRecord, read_record, read_varint, read_varlong
from penstock.records._writing cimport varint_size, write_varint

from typing import NamedTuple

from penstock.records._kernel import read_header
from penstock.records.batch import Compression
from penstock.records.compression import compress, decompress
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedCompression, UnsupportedMagic


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define penstock_prefetch(at) __builtin_prefetch(at)
    #else
    #define penstock_prefetch(at) ((void)(at))
    #endif
    """
    void prefetch "penstock_prefetch"(const void* at) noexcept nogil


cdef enum:
    TRANSACTIONAL_MASK = 0x10
    CONTROL_MASK = 0x20
    DELETE_HORIZON_MASK = 0x40
    SPECIAL_MASK = 0x37  # compressed, transactional or control
    CODEC_MAX = 4
    OLD_MESSAGE_BYTES_MIN = 26  # offset, size and the smallest message of format v0
    OLD_TIMESTAMP_AT = 18  # format v1
    KEY_HASH_BYTES = 16
    LOOK_AHEAD = 16  # keys that are hashed, and whose slots are loaded, before the first is compared
    RECORD_GROWTH_MAX = 15  # another timestamp delta: nine bytes, and the length five

cdef enum Status:
    DONE
    FOUND
    SPECIAL  # the batch has to be decompressed or decided on
    FULL
    TOO_SHORT
    BAD_MAGIC
    BAD_CRC
    BAD_COUNT
    MALFORMED
    NO_MEMORY

cdef struct Slot:
    uint64_t hash_low
    uint64_t hash_high
    int64_t offset_plus_1  # 0 if the slot is empty: memory from calloc costs nothing until it is used

cdef struct Hash:
    uint64_t low
    uint64_t high

cdef struct IndexEntry:
    int64_t position
    int64_t last_offset
    int64_t max_timestamp
    int64_t max_timestamp_offset

cdef struct RawBatch:
    const uint8_t* header
    int64_t size
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int16_t attributes
    const uint8_t* records  # decompressed
    const uint8_t* end
    int32_t count
    bint is_old  # format v0 or v1: a message without the fields above, except offsets and the maximum timestamp

cdef struct Selection:
    int32_t count
    bint has_tombstones
    int64_t first_timestamp
    int64_t max_timestamp

cdef struct Buffer:
    uint8_t* data
    size_t used
    size_t capacity

cdef bint USES_INSTRUCTION = has_crc_instruction()
prepare_crc()

SLOT_BYTES = sizeof(Slot)


# Checksums -----------------------------------------------------------------------------------------------------------

cdef inline uint32_t crc_of(const uint8_t* data, size_t size) noexcept nogil:
    return crc_by_instruction(data, size) if USES_INSTRUCTION else crc_by_tables(data, size)


def checksums(data):
    """The CRC-32C of `data`, with the processor's instruction and with tables; for tests."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        by_tables = crc_by_tables(<const uint8_t*>buffer.buf, buffer.len)
        return (crc_of(<const uint8_t*>buffer.buf, buffer.len), by_tables)
    finally:
        PyBuffer_Release(&buffer)


# Hashing keys --------------------------------------------------------------------------------------------------------

cdef inline uint64_t rotated(uint64_t word, int count) noexcept nogil:
    return (word << count) | (word >> (64 - count))


cdef inline uint64_t load64_little(const uint8_t* at) noexcept nogil:
    return (
        <uint64_t>at[0] | <uint64_t>at[1] << 8 | <uint64_t>at[2] << 16 | <uint64_t>at[3] << 24
        | <uint64_t>at[4] << 32 | <uint64_t>at[5] << 40 | <uint64_t>at[6] << 48 | <uint64_t>at[7] << 56
    )


cdef inline void sip_rounds(uint64_t* v, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        v[0] += v[1]
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] += v[3]
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] += v[3]
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] += v[1]
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)


cdef Hash sip_hash(uint64_t key_0, uint64_t key_1, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """SipHash-2-4 with 128 bits: nobody who does not know the key can make two record keys collide."""
    cdef uint64_t[4] v
    cdef uint64_t word
    cdef Hash result
    cdef const uint8_t* end = data + (size & ~7)
    cdef int i
    v[0] = key_0 ^ 0x736F6D6570736575ULL
    v[1] = key_1 ^ 0x646F72616E646F6DULL ^ 0xEE
    v[2] = key_0 ^ 0x6C7967656E657261ULL
    v[3] = key_1 ^ 0x7465646279746573ULL
    while data < end:
        word = load64_little(data)
        v[3] ^= word
        sip_rounds(v, 2)
        v[0] ^= word
        data += 8
    word = <uint64_t>(size & 0xFF) << 56
    for i in range(size & 7):
        word |= <uint64_t>data[i] << (8 * i)
    v[3] ^= word
    sip_rounds(v, 2)
    v[0] ^= word
    v[2] ^= 0xEE
    sip_rounds(v, 4)
    result.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    sip_rounds(v, 4)
    result.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return result


def hash_of(data, hash_key):
    """The 16 bytes of the hash of a record's key; for tests."""
    cdef Py_buffer buffer
    cdef OffsetMap offsets = OffsetMap(SLOT_BYTES, hash_key=hash_key)
    cdef Hash hashed
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        hashed = offsets.hash(<const uint8_t*>buffer.buf, buffer.len)
        return int(hashed.low).to_bytes(8, "little") + int(hashed.high).to_bytes(8, "little")
    finally:
        PyBuffer_Release(&buffer)


# The last offset of each key -----------------------------------------------------------------------------------------

cdef class OffsetMap:
    """The last offset of each key, in a fixed amount of memory: 24 bytes a key, which is stored as a hash.

    It is full when `load_factor` of the slots are taken. `latest_offset` is the last offset that was looked at; -1 at
    first.
    """

    cdef Slot* slots
    cdef uint64_t slot_count
    cdef uint64_t used
    cdef uint64_t key_0
    cdef uint64_t key_1
    cdef readonly int64_t latest_offset
    cdef readonly uint64_t capacity

    def __cinit__(self, memory_bytes, *, hash_key, load_factor=0.9):
        cdef bytes key = hash_key
        if len(key) != KEY_HASH_BYTES:
            raise ValueError(f"hash_key has {len(key)} bytes, not {KEY_HASH_BYTES}")
        self.slot_count = max(memory_bytes // <Py_ssize_t>sizeof(Slot), 1)
        self.capacity = min(<uint64_t>(self.slot_count * <double>load_factor), self.slot_count - 1)
        self.key_0 = int.from_bytes(key[:8], "little")
        self.key_1 = int.from_bytes(key[8:], "little")
        self.latest_offset = -1
        self.slots = <Slot*>calloc(self.slot_count, sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError(f"no memory for {memory_bytes} bytes of keys")

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.used

    def get(self, key):
        """The last offset of a key; -1 if it is not known."""
        cdef Py_buffer buffer
        PyObject_GetBuffer(key, &buffer, PyBUF_SIMPLE)
        try:
            return self.find(self.hash(<const uint8_t*>buffer.buf, buffer.len)).offset_plus_1 - 1
        finally:
            PyBuffer_Release(&buffer)

    cdef Hash hash(self, const uint8_t* key, Py_ssize_t size) noexcept nogil:
        return sip_hash(self.key_0, self.key_1, key, size)

    cdef Slot* home(self, Hash hashed) noexcept nogil:
        """Where the search for a key begins: the hash, scaled to the number of slots."""
        cdef uint64_t high = hashed.low >> 32
        return self.slots + (high * self.slot_count >> 32)

    cdef Slot* find(self, Hash hashed) noexcept nogil:
        """The slot of a key, or the empty one where it belongs; there is always an empty one."""
        cdef Slot* slot = self.home(hashed)
        cdef Slot* end = self.slots + self.slot_count
        while slot.offset_plus_1 != 0 and (slot.hash_low != hashed.low or slot.hash_high != hashed.high):
            slot += 1
            if slot is end:
                slot = self.slots
        return slot

    cdef bint put(self, Hash hashed, int64_t offset) noexcept nogil:
        """False if it is full."""
        cdef Slot* slot = self.find(hashed)
        if slot.offset_plus_1 == 0:
            if self.used >= self.capacity:
                return False
            slot.hash_low = hashed.low
            slot.hash_high = hashed.high
            self.used += 1
        slot.offset_plus_1 = offset + 1
        return True

    cdef Status put_records(self, RawBatch* batch, int64_t start_offset) noexcept nogil:
        """Note the keys of the batch from `start_offset` on."""
        cdef const uint8_t* at = batch.records
        cdef RawRecord record
        cdef Hash[LOOK_AHEAD] hashes
        cdef int64_t[LOOK_AHEAD] offsets
        cdef int64_t offset
        cdef int32_t index = 0
        cdef int waiting, i
        while index < batch.count:
            waiting = 0
            while index < batch.count and waiting < LOOK_AHEAD:
                index += 1
                if not read_record(&at, batch.end, &record):
                    return MALFORMED
                offset = batch.base_offset + record.offset_delta
                if record.key is NULL or offset < start_offset:
                    continue
                hashes[waiting] = self.hash(record.key, record.key_size)
                offsets[waiting] = offset
                prefetch(self.home(hashes[waiting]))
                waiting += 1
            for i in range(waiting):
                if not self.put(hashes[i], offsets[i]):
                    return FULL
                self.latest_offset = offsets[i]
        return DONE if at is batch.end else MALFORMED


# Reading batches -----------------------------------------------------------------------------------------------------

cdef Status take_batch(Py_buffer* buffer, Py_ssize_t position, RawBatch* batch) noexcept nogil:
    """FOUND; DONE if no whole batch is left; or what is wrong with the batch at `position`."""
    cdef const uint8_t* at = <const uint8_t*>buffer.buf + position
    cdef int64_t left = buffer.len - position
    if left <= MAGIC_AT:
        return DONE
    if at[MAGIC_AT] > MAGIC:
        return BAD_MAGIC
    batch.is_old = at[MAGIC_AT] < MAGIC
    batch.size = <int64_t><int32_t>load32(at + LENGTH_AT) + LENGTH_BYTES
    if batch.size < (OLD_MESSAGE_BYTES_MIN if batch.is_old else HEADER_BYTES):
        return TOO_SHORT
    if batch.size > left:
        return DONE
    batch.header = at
    batch.base_offset = <int64_t>load64(at)
    if batch.is_old:
        batch.last_offset = batch.base_offset
        batch.max_timestamp = -1
        if at[MAGIC_AT] == 1 and batch.size >= OLD_TIMESTAMP_AT + 8:
            batch.max_timestamp = <int64_t>load64(at + OLD_TIMESTAMP_AT)
        batch.count = 1
        return FOUND
    if crc_of(at + ATTRIBUTES_AT, batch.size - ATTRIBUTES_AT) != load32(at + CRC_AT):
        return BAD_CRC
    batch.attributes = <int16_t>load16(at + ATTRIBUTES_AT)
    batch.last_offset = batch.base_offset + <int32_t>load32(at + LAST_OFFSET_DELTA_AT)
    batch.base_timestamp = <int64_t>load64(at + BASE_TIMESTAMP_AT)
    batch.max_timestamp = <int64_t>load64(at + MAX_TIMESTAMP_AT)
    batch.count = <int32_t>load32(at + RECORD_COUNT_AT)
    batch.records = at + HEADER_BYTES
    batch.end = at + batch.size
    if batch.count < 0 or batch.last_offset - batch.base_offset < max(batch.count - 1, 0):
        return BAD_COUNT
    return FOUND


cdef int raise_status(Status status, Py_ssize_t position) except -1:
    if status == NO_MEMORY:
        raise MemoryError("no memory for compacted batches")
    if status == BAD_MAGIC:
        raise UnsupportedMagic(f"the batch at {position} has an unknown format")
    if status == BAD_CRC:
        raise CorruptBatch(f"the batch at {position} does not have the checksum of its header")
    if status == TOO_SHORT:
        raise CorruptBatch(f"the batch at {position} claims fewer bytes than a header has")
    if status == BAD_COUNT:
        raise InvalidBatch(f"the batch at {position} has more records than offsets")
    assert status == MALFORMED, f"unexpected status {status}"
    raise InvalidBatch(f"a record of the batch at {position} is malformed")


cdef object decompressed(object data, Py_ssize_t position, RawBatch* batch):
    """The records of the batch as a buffer; None if they are not compressed."""
    cdef int codec = batch.attributes & COMPRESSION_MASK
    if codec == 0 or batch.count == 0:
        return None
    if codec > CODEC_MAX:
        raise UnsupportedCompression(f"there is no codec {codec}")
    return decompress(Compression(codec), memoryview(data)[position + HEADER_BYTES : position + batch.size])


cdef object decided(object data, Py_ssize_t position, RawBatch* batch, object decide):
    """The caller's decision on the batch; None if it needs none."""
    if batch.attributes & (TRANSACTIONAL_MASK | CONTROL_MASK) == 0:
        return None
    return decide(read_header(data, position), memoryview(data)[position : position + batch.size])


class Decision(NamedTuple):
    """What to do with a transactional or control batch."""

    discards_records: bool
    keeps_empty: bool
    """If no record is left, keep the batch without records."""
    marks_empty_transaction: bool
    """A marker of a transaction without records: it gets a delete horizon."""


class Progress(NamedTuple):
    position: int
    """Where the next batch begins."""
    is_full: bool


def add_batches(OffsetMap offsets not None, data, *, Py_ssize_t position, int64_t start_offset, decide):
    """Note the last offset of each key in the whole batches of `data`, from `start_offset` on.

    It stops when the map is full, also in the middle of a batch. Records without a key, control batches, and batches
    that `decide` discards are ignored.
    """
    cdef Py_buffer buffer
    cdef RawBatch batch
    cdef Status status
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        while True:
            with nogil:
                status = add_run(offsets, &buffer, &position, start_offset, &batch)
            if status == SPECIAL:
                status = add_special(offsets, data, position, start_offset, &batch, decide)
                if status == DONE:
                    position += batch.size
                    continue
            if status == DONE or status == FULL:
                return Progress(position, status == FULL)
            raise_status(status, position)
    finally:
        PyBuffer_Release(&buffer)


cdef Status add_run(
    OffsetMap offsets, Py_buffer* buffer, Py_ssize_t* position, int64_t start_offset, RawBatch* batch
) noexcept nogil:
    """Up to the end, or to a batch that needs the interpreter."""
    cdef Status status
    while True:
        status = take_batch(buffer, position[0], batch)
        if status != FOUND:
            return status
        if batch.last_offset >= start_offset:
            if not batch.is_old:
                if batch.attributes & SPECIAL_MASK:
                    return SPECIAL
                status = offsets.put_records(batch, start_offset)
                if status != DONE:
                    return status
            offsets.latest_offset = batch.last_offset
        position[0] += batch.size


cdef Status add_special(
    OffsetMap offsets, object data, Py_ssize_t position, int64_t start_offset, RawBatch* batch, object decide
) except *:
    cdef Status status = DONE
    cdef Py_buffer records
    decision = decided(data, position, batch, decide)
    if not batch.attributes & CONTROL_MASK and (decision is None or not decision.discards_records):
        payload = decompressed(data, position, batch)
        if payload is None:
            with nogil:
                status = offsets.put_records(batch, start_offset)
        else:
            PyObject_GetBuffer(payload, &records, PyBUF_SIMPLE)
            try:
                batch.records = <const uint8_t*>records.buf
                batch.end = batch.records + records.len
                with nogil:
                    status = offsets.put_records(batch, start_offset)
            finally:
                PyBuffer_Release(&records)
    if status == DONE:
        offsets.latest_offset = batch.last_offset
    return status


# Writing batches -----------------------------------------------------------------------------------------------------

cdef bint reserve(Buffer* buffer, size_t size) noexcept nogil:
    """Make room for `size` more bytes; False if there is no memory."""
    cdef size_t capacity
    cdef uint8_t* data
    if buffer.capacity - buffer.used >= size:
        return True
    capacity = max(buffer.used + size, 2 * buffer.capacity)
    data = <uint8_t*>realloc(buffer.data, capacity)
    if data is NULL:
        return False
    buffer.data = data
    buffer.capacity = capacity
    return True


cdef class BatchFilter:
    """Copies batches without outdated records to one new segment.

    - A record stays if it is the last of its key, or later than everything in the map. Records without a key go.
    - A tombstone that stays gives its batch a delete horizon, `delete_retention_ms` from now, unless it has one. It goes
      when that has passed.
    - A batch without records goes, unless its last offset is in `kept_offsets` or `decide` keeps it.
    - Offsets, sequence numbers, the leader epoch and the codec of a batch do not change.
    - Messages of formats v0 and v1 stay as they are.

    `index_entries` has an entry (position, last offset, maximum timestamp so far, its offset) about every
    `index_interval_bytes`.
    """

    cdef OffsetMap offsets
    cdef int64_t now_ms
    cdef int64_t delete_retention_ms
    cdef int64_t index_interval_bytes
    cdef Buffer kept_offsets
    cdef size_t next_kept
    cdef Buffer output
    cdef Buffer flags  # one byte for each record of the batch: whether it stays
    cdef Buffer rewritten
    cdef Buffer entries
    cdef int64_t unindexed_bytes
    cdef readonly int64_t output_bytes
    cdef readonly int64_t max_timestamp_ms
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t bytes_read
    cdef readonly int64_t records_read
    cdef readonly int64_t records_retained

    def __init__(
        self, OffsetMap offsets not None, *, now_ms, delete_retention_ms, kept_offsets, index_interval_bytes
    ):
        cdef int64_t offset
        self.offsets = offsets
        self.now_ms = now_ms
        self.delete_retention_ms = delete_retention_ms
        self.index_interval_bytes = index_interval_bytes
        self.max_timestamp_ms = self.max_timestamp_offset = -1
        for offset in sorted(kept_offsets):
            if not reserve(&self.kept_offsets, sizeof(int64_t)):
                raise MemoryError
            (<int64_t*>(self.kept_offsets.data + self.kept_offsets.used))[0] = offset
            self.kept_offsets.used += sizeof(int64_t)

    def __dealloc__(self):
        free(self.kept_offsets.data)
        free(self.output.data)
        free(self.flags.data)
        free(self.rewritten.data)
        free(self.entries.data)

    @property
    def index_entries(self):
        cdef const IndexEntry* entries = <const IndexEntry*>self.entries.data
        cdef size_t i
        return [
            (entries[i].position, entries[i].last_offset, entries[i].max_timestamp, entries[i].max_timestamp_offset)
            for i in range(self.entries.used // sizeof(IndexEntry))
        ]

    def take_output(self):
        """The bytes that were written since the last call."""
        output = PyBytes_FromStringAndSize(<const char*>self.output.data, self.output.used)
        self.output.used = 0
        return output

    def filter(self, data, *, Py_ssize_t position, decide):
        """Copy what stays of the whole batches of `data`; returns where the first incomplete batch begins."""
        cdef Py_buffer buffer
        cdef RawBatch batch
        cdef Status status
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            while True:
                with nogil:
                    status = self.filter_run(&buffer, &position, &batch)
                if status == SPECIAL:
                    status = self.filter_special(data, position, &batch, decide)
                    if status == DONE:
                        position += batch.size
                        continue
                if status == DONE:
                    return position
                raise_status(status, position)
        finally:
            PyBuffer_Release(&buffer)

    cdef Status filter_run(self, Py_buffer* buffer, Py_ssize_t* position, RawBatch* batch) noexcept nogil:
        """Up to the end, or to a batch that needs the interpreter."""
        cdef Selection selection
        cdef Status status
        while True:
            status = take_batch(buffer, position[0], batch)
            if status != FOUND:
                return status
            if batch.is_old:
                status = self.copy(batch)
            elif batch.attributes & SPECIAL_MASK:
                return SPECIAL
            else:
                status = self.select(batch, &selection)
                if status == DONE:
                    status = self.write(batch, &selection, self.is_kept(batch.last_offset), False)
            if status != DONE:
                return status
            self.count_read(batch)
            position[0] += batch.size

    cdef Status filter_special(self, object data, Py_ssize_t position, RawBatch* batch, object decide) except *:
        cdef Py_buffer records
        cdef Selection selection
        cdef Status status
        cdef bint keeps_empty = self.is_kept(batch.last_offset)
        cdef bint marks_empty_transaction = False
        selection.count = 0
        decision = decided(data, position, batch, decide)
        if decision is not None:
            keeps_empty |= decision.keeps_empty
            marks_empty_transaction = decision.marks_empty_transaction
        if decision is not None and decision.discards_records:
            status = self.write(batch, &selection, keeps_empty, False)
        else:
            payload = decompressed(data, position, batch)
            if payload is None:
                with nogil:
                    status = self.select(batch, &selection)
                    if status == DONE:
                        status = self.write(batch, &selection, keeps_empty, marks_empty_transaction)
            else:
                PyObject_GetBuffer(payload, &records, PyBUF_SIMPLE)
                try:
                    batch.records = <const uint8_t*>records.buf
                    batch.end = batch.records + records.len
                    with nogil:
                        status = self.select(batch, &selection)
                    if status == DONE:
                        status = self.write_compressed(
                            batch, &selection, keeps_empty, marks_empty_transaction
                        )
                finally:
                    PyBuffer_Release(&records)
        if status == DONE:
            self.count_read(batch)
        return status

    cdef void count_read(self, RawBatch* batch) noexcept nogil:
        self.bytes_read += batch.size
        self.records_read += batch.count

    cdef bint is_kept(self, int64_t last_offset) noexcept nogil:
        """Batches come in the order of their offsets."""
        cdef const int64_t* offsets = <const int64_t*>self.kept_offsets.data
        cdef size_t count = self.kept_offsets.used // sizeof(int64_t)
        while self.next_kept < count and offsets[self.next_kept] < last_offset:
            self.next_kept += 1
        return self.next_kept < count and offsets[self.next_kept] == last_offset

    cdef Status select(self, RawBatch* batch, Selection* selection) noexcept nogil:
        """Decide for each record of the batch whether it stays, and set its flag."""
        cdef const uint8_t* at = batch.records
        cdef RawRecord record
        cdef Hash[LOOK_AHEAD] hashes
        cdef int64_t[LOOK_AHEAD] offsets
        cdef int32_t[LOOK_AHEAD] indexes
        cdef int32_t index = 0
        cdef int waiting, i
        cdef int64_t offset
        cdef bint keeps_tombstones = (
            batch.attributes & DELETE_HORIZON_MASK == 0 or self.now_ms < batch.base_timestamp
        )
        cdef uint8_t* flags
        if batch.count > batch.end - batch.records:
            return MALFORMED
        self.flags.used = 0
        if not reserve(&self.flags, batch.count):
            return NO_MEMORY
        flags = self.flags.data
        while index < batch.count:
            waiting = 0
            while index < batch.count and waiting < LOOK_AHEAD:
                if not read_record(&at, batch.end, &record):
                    return MALFORMED
                offset = batch.base_offset + record.offset_delta
                if batch.attributes & CONTROL_MASK or offset > self.offsets.latest_offset:
                    flags[index] = True
                elif record.key is NULL or (record.value is NULL and not keeps_tombstones):
                    flags[index] = False
                else:
                    hashes[waiting] = self.offsets.hash(record.key, record.key_size)
                    offsets[waiting] = offset
                    indexes[waiting] = index
                    prefetch(self.offsets.home(hashes[waiting]))
                    waiting += 1
                index += 1
            for i in range(waiting):
                flags[indexes[i]] = offsets[i] >= self.offsets.find(hashes[i]).offset_plus_1 - 1
        if at is not batch.end:
            return MALFORMED
        self.sum_up(batch, selection)
        return DONE

    cdef void sum_up(self, RawBatch* batch, Selection* selection) noexcept nogil:
        """What the records that stay have in common; `select` has read them once."""
        cdef const uint8_t* at = batch.records
        cdef RawRecord record
        cdef int32_t index
        cdef int64_t timestamp
        selection.count = 0
        selection.has_tombstones = False
        selection.max_timestamp = -1
        for index in range(batch.count):
            read_record(&at, batch.end, &record)
            if not self.flags.data[index]:
                continue
            timestamp = record_timestamp(batch, record.timestamp_delta)
            if selection.count == 0:
                selection.first_timestamp = timestamp
            selection.max_timestamp = max(selection.max_timestamp, timestamp)
            selection.has_tombstones |= record.value is NULL
            selection.count += 1

    cdef bint needs_horizon(self, RawBatch* batch, Selection* selection, bint marks_empty_transaction) noexcept nogil:
        return (
            batch.attributes & DELETE_HORIZON_MASK == 0 and (selection.has_tombstones or marks_empty_transaction)
        )

    cdef Status write(
        self, RawBatch* batch, Selection* selection, bint keeps_empty, bint marks_empty_transaction
    ) noexcept nogil:
        """Write what stays of a batch that is not compressed."""
        cdef bint needs_horizon
        cdef Status status
        if selection.count == 0:
            return self.write_empty(batch) if keeps_empty else DONE
        needs_horizon = self.needs_horizon(batch, selection, marks_empty_transaction)
        if selection.count == batch.count and not needs_horizon:
            status = self.copy(batch)
        else:
            status = self.rewrite_records(batch, selection, needs_horizon)
            if status == DONE:
                status = self.write_batch(
                    batch, selection, needs_horizon, self.rewritten.data, self.rewritten.used
                )
        self.records_retained += selection.count
        return status

    cdef Status write_compressed(
        self, RawBatch* batch, Selection* selection, bint keeps_empty, bint marks_empty_transaction
    ) except *:
        cdef Py_buffer records
        cdef Status status
        cdef bint needs_horizon
        if selection.count == 0:
            return self.write_empty(batch) if keeps_empty else DONE
        needs_horizon = self.needs_horizon(batch, selection, marks_empty_transaction)
        self.records_retained += selection.count
        if selection.count == batch.count and not needs_horizon:
            return self.copy(batch)
        with nogil:
            status = self.rewrite_records(batch, selection, needs_horizon)
        if status != DONE:
            return status
        payload = compress(
            Compression(batch.attributes & COMPRESSION_MASK),
            PyBytes_FromStringAndSize(<const char*>self.rewritten.data, self.rewritten.used),
        )
        PyObject_GetBuffer(payload, &records, PyBUF_SIMPLE)
        try:
            return self.write_batch(batch, selection, needs_horizon, <const uint8_t*>records.buf, records.len)
        finally:
            PyBuffer_Release(&records)

    cdef int64_t new_base_timestamp(self, RawBatch* batch, Selection* selection, bint needs_horizon) noexcept nogil:
        if needs_horizon:
            return self.now_ms + self.delete_retention_ms
        if batch.attributes & DELETE_HORIZON_MASK:
            return batch.base_timestamp
        return selection.first_timestamp

    cdef Status rewrite_records(self, RawBatch* batch, Selection* selection, bint needs_horizon) noexcept nogil:
        """The records that stay, with timestamps relative to the new base timestamp."""
        cdef int64_t base_timestamp = self.new_base_timestamp(batch, selection, needs_horizon)
        cdef bint is_unchanged = (
            base_timestamp == batch.base_timestamp and batch.attributes & TIMESTAMP_TYPE_MASK == 0
        )
        cdef const uint8_t* at = batch.records
        cdef const uint8_t* start
        cdef const uint8_t* rest
        cdef uint8_t* target
        cdef RawRecord record
        cdef int32_t index, length
        cdef int64_t delta
        self.rewritten.used = 0
        if not reserve(&self.rewritten, (batch.end - batch.records) + <size_t>selection.count * RECORD_GROWTH_MAX):
            return NO_MEMORY
        target = self.rewritten.data
        for index in range(batch.count):
            start = at
            read_record(&at, batch.end, &record)
            if not self.flags.data[index]:
                continue
            if is_unchanged:
                memcpy(target, start, at - start)
                target += at - start
                continue
            start = read_varint(start, at, &length)
            rest = read_varlong(start + 1, at, &delta)
            delta = <int64_t>(
                <uint64_t>record_timestamp(batch, record.timestamp_delta) - <uint64_t>base_timestamp
            )
            target = write_varint(target, 1 + varint_size(delta) + (at - rest))
            target[0] = start[0]
            target = write_varint(target + 1, delta)
            memcpy(target, rest, at - rest)
            target += at - rest
        self.rewritten.used = target - self.rewritten.data
        return DONE

    cdef Status write_batch(
        self, RawBatch* batch, Selection* selection, bint needs_horizon, const uint8_t* payload, size_t size
    ) noexcept nogil:
        """A header like that of the batch, and the payload."""
        cdef int16_t attributes = batch.attributes
        cdef int64_t max_timestamp = selection.max_timestamp
        cdef uint8_t* at
        if attributes & TIMESTAMP_TYPE_MASK:
            max_timestamp = batch.max_timestamp
        if needs_horizon:
            attributes |= DELETE_HORIZON_MASK
        if not reserve(&self.output, HEADER_BYTES + size):
            return NO_MEMORY
        at = self.output.data + self.output.used
        memcpy(at, batch.header, HEADER_BYTES)
        memcpy(at + HEADER_BYTES, payload, size)
        store32(at + RECORD_COUNT_AT, selection.count)
        store64(at + BASE_TIMESTAMP_AT, self.new_base_timestamp(batch, selection, needs_horizon))
        return self.finish(batch, attributes, max_timestamp, HEADER_BYTES + size)

    cdef Status write_empty(self, RawBatch* batch) noexcept nogil:
        cdef uint8_t* at
        if not reserve(&self.output, HEADER_BYTES):
            return NO_MEMORY
        at = self.output.data + self.output.used
        memcpy(at, batch.header, HEADER_BYTES)
        store32(at + RECORD_COUNT_AT, 0)
        store64(at + BASE_TIMESTAMP_AT, -1)
        return self.finish(
            batch, batch.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK), batch.max_timestamp, HEADER_BYTES
        )

    cdef Status finish(self, RawBatch* batch, int16_t attributes, int64_t max_timestamp, size_t size) noexcept nogil:
        """Set the rest of a header at the end of the output."""
        cdef uint8_t* at = self.output.data + self.output.used
        store32(at + LENGTH_AT, <int64_t>size - LENGTH_BYTES)
        store16(at + ATTRIBUTES_AT, attributes)
        store64(at + MAX_TIMESTAMP_AT, max_timestamp)
        store32(at + CRC_AT, crc_of(at + ATTRIBUTES_AT, size - ATTRIBUTES_AT))
        return self.add_written(size, batch.last_offset, max_timestamp)

    cdef Status copy(self, RawBatch* batch) noexcept nogil:
        if not reserve(&self.output, batch.size):
            return NO_MEMORY
        memcpy(self.output.data + self.output.used, batch.header, batch.size)
        return self.add_written(batch.size, batch.last_offset, batch.max_timestamp)

    cdef Status add_written(self, int64_t size, int64_t last_offset, int64_t max_timestamp) noexcept nogil:
        """Index the batch that was just written as an append does."""
        cdef IndexEntry* entry
        if max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed_bytes > self.index_interval_bytes:
            if not reserve(&self.entries, sizeof(IndexEntry)):
                return NO_MEMORY
            entry = <IndexEntry*>(self.entries.data + self.entries.used)
            entry.position = self.output_bytes
            entry.last_offset = last_offset
            entry.max_timestamp = self.max_timestamp_ms
            entry.max_timestamp_offset = self.max_timestamp_offset
            self.entries.used += sizeof(IndexEntry)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size
        self.output.used += size
        self.output_bytes += size
        return DONE


cdef inline int64_t record_timestamp(RawBatch* batch, int64_t timestamp_delta) noexcept nogil:
    if batch.attributes & TIMESTAMP_TYPE_MASK:
        return batch.max_timestamp
    return <int64_t>(<uint64_t>batch.base_timestamp + <uint64_t>timestamp_delta)
