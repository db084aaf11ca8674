# cython: language_level=3
"""`Message`: one record as a consumer receives it.

An application may keep millions of them, so a message costs one object from a free list, its key and its value
(bench/micro/records.py).
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

import datetime

from penstock.records.batch import TimestampType


cdef enum:
    NO_TIMESTAMP = -1


cdef object CREATE_TIME = TimestampType.CREATE_TIME
cdef object LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
cdef object EMPTY = ()
cdef object EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@cython.final
@cython.freelist(1024)
cdef class Message:
    """One record of a topic, as a consumer receives it. Immutable.

    `timestamp_ms` counts from 1970 and is -1 for a record without a timestamp. `timestamp_type` says whether the
    producer or the broker set it.
    """

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
        """`timestamp_ms` as a datetime in UTC; None without a timestamp, or if Python's calendar does not reach it."""
        if self.timestamp_ms == NO_TIMESTAMP:
            return None
        try:
            return EPOCH + datetime.timedelta(milliseconds=self.timestamp_ms)
        except OverflowError:
            return None

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
        return Message, self.fields()
