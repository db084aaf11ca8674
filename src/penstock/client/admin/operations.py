"""What somebody may do to a resource; access control and the descriptions of resources share the names."""

from __future__ import annotations

import enum


class AclOperation(enum.IntEnum):
    """As on the wire. `ANY` only filters; `UNKNOWN` is what a newer broker made up."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, number: object) -> AclOperation:
        return cls.UNKNOWN


NOT_ASKED = -(2**31)


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """What a response says that the caller may do, a bit for each operation; None where it was not asked."""
    if bits == NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)
