"""Positions of the fields of a batch header, as in `batch`; a test compares the two."""


cdef enum:
    HEADER_BYTES = 61
    LENGTH_BYTES = 12
    LENGTH_AT = 8
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
    COMPRESSION_MASK = 0x07
    TIMESTAMP_TYPE_MASK = 0x08
    MAGIC = 2
