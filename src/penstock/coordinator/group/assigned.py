"""What groups have in common to whose members the coordinator itself assigns what to read.

Their members send heartbeats and say what they subscribe to, so it is always known what is read, and by how many.
"""

from __future__ import annotations

from collections.abc import Sized

from penstock.coordinator.group.group import Group
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


class AssignedGroup(Group):
    members: Sized

    def check_offset_delete(self) -> None:
        """What members read is known, so it is always possible to tell."""

    def check_delete(self) -> None:
        if self.members:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} is not empty: it has members.")

    def offsets_expire_from_ms(self, commit_timestamp_ms: int, *, topic: str) -> int | None:
        return None if self.is_subscribed_to(topic) else commit_timestamp_ms

    @property
    def is_kept_without_offsets(self) -> bool:
        return bool(self.members)
