"""Numbers with a special meaning in requests and responses, under Kafka's names.

Those of the record format (NO_TIMESTAMP, NO_PRODUCER_ID, ...) are in `records.batch`.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
ACKS_ALL = -1
READ_COMMITTED = 1  # isolation level; read_uncommitted is 0

CONSUMER_REPLICA_ID = -1  # replica_id of clients that are not brokers
DEBUGGING_CONSUMER_ID = -2

# ListOffsets, in place of a timestamp
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_OFFSET = -6

# Fetch sessions (KIP-227)
INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

NO_LEADER_EPOCH = -1  # here, so that the metadata of a client does not import the record format
