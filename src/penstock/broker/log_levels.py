"""Levels of this process's loggers, as Kafka's tools see and set them (KIP-412).

They belong to a running node and are not recorded: a restart forgets them.
"""

from __future__ import annotations

import logging

from penstock.config.alter import Change, Operation
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

ROOT = "root"

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,  # below the finest that Python names, so that it lets everything through
}


def current_levels() -> dict[str, str]:
    """Every logger by name, with the level that is in force for it."""
    levels = {ROOT: _level_name(logging.root)}
    for name in sorted(logging.root.manager.loggerDict):
        levels[name] = _level_name(logging.getLogger(name))
    return levels


def check_changes(changes: list[Change]) -> None:
    for change in changes:
        if change.operation not in (Operation.SET, Operation.DELETE):
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"the level of a logger can be set or reset; {change.operation.name} is for lists",
            )
        if change.name != ROOT and change.name not in logging.root.manager.loggerDict:
            raise Refused(ErrorCode.INVALID_CONFIG, f"there is no logger {change.name}")
        if change.operation is Operation.DELETE and change.name == ROOT:
            raise Refused(ErrorCode.INVALID_REQUEST, "The root logger must have a level.")
        if change.operation is Operation.SET and change.value not in LEVELS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"{change.value} is not a log level; the levels are {', '.join(LEVELS)}",
            )


def apply_changes(changes: list[Change]) -> None:
    """Set levels, or let a logger follow its parent again. The changes must have been checked."""
    for change in changes:
        logger = logging.getLogger(None if change.name == ROOT else change.name)
        logger.setLevel(logging.NOTSET if change.value is None else LEVELS[change.value])


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if level <= effective), "TRACE")
