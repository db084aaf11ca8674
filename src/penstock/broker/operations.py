"""Which operations a client may do on a resource, as the bits of KIP-430.

There is no authorizer yet, so everybody may do everything that a resource supports, as in a Kafka without
one.
"""

from __future__ import annotations

NOT_ASKED = -(2**31)
"""Stands in a response for "the client did not ask"."""

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
