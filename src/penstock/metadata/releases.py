"""Names of the levels of `metadata.version`: `4.3-IV0` is level 30."""

from __future__ import annotations

FIRST_LEVEL = 7
"""The oldest that Kafka 4 can upgrade from."""

_STEPS = {
    "3.3": (3,),
    "3.4": (0,),
    "3.5": (0, 1, 2),
    "3.6": (0, 1, 2),
    "3.7": (0, 1, 2, 3, 4),
    "3.8": (0,),
    "3.9": (0,),
    "4.0": (0, 1, 2, 3),
    "4.1": (0, 1),
    "4.2": (0, 1),
    "4.3": (0,),
}
RELEASES = tuple(f"{release}-IV{step}" for release, steps in _STEPS.items() for step in steps)
"""In the order of their levels."""


def level_of(release: str) -> int | None:
    """The level of a release such as `4.3-IV0`; `4.3` is its last step. None if it is unknown."""
    meant = [
        place for place, name in enumerate(RELEASES) if name == release or name.startswith(f"{release}-")
    ]
    return FIRST_LEVEL + meant[-1] if meant else None


def release_of(level: int) -> str:
    place = level - FIRST_LEVEL
    return RELEASES[place] if 0 <= place < len(RELEASES) else str(level)
