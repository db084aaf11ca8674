"""The log levels of this process, for Kafka's tools (KIP-412).

They are not recorded: a restart resets them.
"""

from __future__ import annotations

import logging

from penstock.config.alter import Change, Operation
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

ROOT = "root"

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,  # below all levels of Python, so that everything is logged
}


def current_levels() -> dict[str, str]:
    """All loggers by name, with their effective level."""
    levels = {ROOT: _level_name(logging.root)}
    for name in sorted(logging.root.manager.loggerDict):
        levels[name] = _level_name(logging.getLogger(name))
    return levels


def check_changes(changes: list[Change]) -> None:
    for change in changes:
        if change.operation not in (Operation.SET, Operation.DELETE):
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"{change.operation.name} is not possible for a log level; use SET or DELETE",
            )
        if change.name != ROOT and change.name not in logging.root.manager.loggerDict:
            raise Refused(ErrorCode.INVALID_CONFIG, f"unknown logger {change.name}")
        if change.operation is Operation.DELETE and change.name == ROOT:
            raise Refused(ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be removed")
        if change.operation is Operation.SET and change.value not in LEVELS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"unknown log level {change.value}; use one of {', '.join(LEVELS)}",
            )


def apply_changes(changes: list[Change], *, requested_by: str) -> None:
    """Set levels, or inherit the level of the parent again. The changes must have been checked."""
    for change in changes:
        changed = logging.getLogger(None if change.name == ROOT else change.name)
        before = _level_name(changed)
        changed.setLevel(logging.NOTSET if change.value is None else LEVELS[change.value])
        logger.info(
            "changed the log level of %s: %s -> %s, requested by %s",
            change.name,
            before,
            _level_name(changed),
            requested_by,
        )


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if level <= effective), "TRACE")
