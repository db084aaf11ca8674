"""Epochs that say something else than how far a member has come, in every API where members send heartbeats."""

from __future__ import annotations

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_A_WHILE_EPOCH = -2
"""Sent by a static member that will be back, and its epoch until it is. Kafka 4.3 has none in streams groups yet."""

NO_EPOCH = -1
"""In a commit: of somebody who is no member."""

COMMIT_VERSION_WITH_EPOCHS = 9  # of OffsetCommit: it first knows STALE_MEMBER_EPOCH
