"""Records about security: ACLs, SCRAM credentials, delegation tokens."""

from __future__ import annotations

from penstock.protocol.declare import record
from penstock.protocol.types import Int8, Int32, Int64, Uuid


@record(key=18, versions=(0, 0), flexible=0)
class AccessControlEntryRecord:
    """An ACL was added."""

    id: Uuid
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@record(key=19, versions=(0, 0), flexible=0)
class RemoveAccessControlEntryRecord:
    """An ACL was removed."""

    id: Uuid


@record(key=11, versions=(0, 0), flexible=0)
class UserScramCredentialRecord:
    """The SCRAM credential of a user. The password cannot be computed from it."""

    name: str
    mechanism: Int8  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32


@record(key=22, versions=(0, 0), flexible=0)
class RemoveUserScramCredentialRecord:
    """The SCRAM credential of a user for one mechanism was removed."""

    name: str
    mechanism: Int8


@record(key=10, versions=(0, 0), flexible=0)
class DelegationTokenRecord:
    """A delegation token was created or renewed. Its secret is not stored: it is derived from the id and the
    cluster's key."""

    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: Int64
    max_timestamp: Int64  # the limit of renewals
    expiration_timestamp: Int64
    token_id: str


@record(key=26, versions=(0, 0), flexible=0)
class RemoveDelegationTokenRecord:
    """A delegation token expired."""

    token_id: str
