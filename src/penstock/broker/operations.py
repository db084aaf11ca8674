"""The authorized operations of a client on a resource, as the bits of KIP-430.

There is no authorizer yet, so every client is allowed all operations, as in Kafka without an authorizer.
"""

from __future__ import annotations

NOT_ASKED = -(2**31)
"""The value in a response if the client did not request it."""

(
    READ,
    WRITE,
    CREATE,
    DELETE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
) = (1 << bit for bit in range(3, 13))

TOPIC_OPERATIONS = READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS
CLUSTER_OPERATIONS = (
    CREATE | ALTER | DESCRIBE | CLUSTER_ACTION | DESCRIBE_CONFIGS | ALTER_CONFIGS | IDEMPOTENT_WRITE
)
GROUP_OPERATIONS = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS
