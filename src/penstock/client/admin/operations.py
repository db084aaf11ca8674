"""Operations on resources, for ACLs and for the `authorized_operations` of descriptions."""

from __future__ import annotations

import enum
from typing import Any


class UnknownMember:
    """Mixin of enums that are read from responses: a value that only newer brokers know becomes `UNKNOWN`."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls["UNKNOWN"]  # type: ignore[index]


class AclOperation(UnknownMember, enum.IntEnum):
    """Numbers of the protocol. `ANY` is for filters only; `UNKNOWN` is one that this client does not know."""

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


NOT_ASKED = -(2**31)


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """The authorized operations of a response, one bit each; None if they were not requested."""
    if bits == NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)
