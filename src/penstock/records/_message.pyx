# cython: language_level=3
"""One record as a consumer is given it, compiled: `Message` of `fetched_twin` in C.

Millions of them may be made and kept, so one costs an object from a free list and its key and value:
bench/micro/records.py.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from penstock.records.batch import TimestampType
from penstock.records.fetched_twin import message_time, rebuild_message


cdef enum:
    NO_TIMESTAMP = -1


cdef object CREATE_TIME = TimestampType.CREATE_TIME
cdef object LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
cdef object EMPTY = ()


@cython.final
@cython.freelist(1024)
cdef class Message:
    """One record of a topic, as a consumer is given it; never changes."""

    def __init__(
        self,
        str topic not None,
        int32_t partition,
        int64_t offset,
        int64_t timestamp_ms=NO_TIMESTAMP,
        timestamp_type=CREATE_TIME,
        key=None,
        value=None,
        headers=EMPTY,
        leader_epoch=None,
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.is_append_time = timestamp_type == LOG_APPEND_TIME
        self.key = key
        self.value = value
        self.headers = headers
        self.epoch = NO_LEADER_EPOCH if leader_epoch is None else leader_epoch

    @property
    def timestamp_type(self):
        return LOG_APPEND_TIME if self.is_append_time else CREATE_TIME

    @property
    def leader_epoch(self):
        return None if self.epoch == NO_LEADER_EPOCH else self.epoch

    @property
    def time(self):
        return message_time(self.timestamp_ms)

    cdef tuple fields(self):
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )

    def __eq__(self, other):
        if type(other) is not Message:
            return NotImplemented
        return self.fields() == (<Message>other).fields()

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self):
        return (
            f"Message(topic={self.topic!r}, partition={self.partition!r}, offset={self.offset!r},"
            f" timestamp_ms={self.timestamp_ms!r}, timestamp_type={self.timestamp_type!r}, key={self.key!r},"
            f" value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch!r})"
        )

    def __reduce__(self):
        return rebuild_message, self.fields()
