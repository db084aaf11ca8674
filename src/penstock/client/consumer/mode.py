"""How a consumer got its partitions."""

from __future__ import annotations

from enum import Enum, auto


class Mode(Enum):
    NONE = auto()
    SUBSCRIBED = auto()
    ASSIGNED = auto()
