"""Why a node cannot start."""

from __future__ import annotations


class CannotStart(Exception):
    """The node cannot start: a setting is not supported, an address is in use, or a log directory is unusable."""
