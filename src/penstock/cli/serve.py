"""`penstock serve`: read the settings, start a node, and stay until it is told to stop.

Whatever stands in the way is told in one message: what was refused, where it was said, and what to do next. The line
that begins with `penstock ready` is all that goes to stdout; a script may wait for it.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.logs import set_up_logging
from penstock.config.broker import BrokerSettings, find_setting
from penstock.config.declare import Standing
from penstock.config.errors import BadSetting
from penstock.config.properties import BadProperties, decode_properties, parse_properties

if TYPE_CHECKING:
    from penstock.node.process import Ready

logger = logging.getLogger(__name__)

FAILED = 1
MISUSED = 2

# What helps where the operating system says no and the node has no better words.
REMEDIES = {
    errno.EACCES: "Choose a directory that you may write to: --set log.dirs=DIRECTORY",
    errno.EROFS: "Choose a directory that can be written to: --set log.dirs=DIRECTORY",
    errno.ENOSPC: "Make room, or choose a directory on another disk: --set log.dirs=DIRECTORY",
}


class Refusal(Exception):
    """Why the node is not started, in words for the one who started it."""


def serve(file: str | None, assignments: Sequence[str], *, log_level: str) -> int:
    """Run a node until it is told to stop; the exit status."""
    try:
        settings = read_settings(file, assignments)
    except Refusal as refusal:
        print(f"penstock: {refusal}", file=sys.stderr)
        return MISUSED
    set_up_logging(log_level)
    _tell_what_has_no_effect(settings)

    # Most of the code that there is: not for one who only gets a refusal.
    from penstock.node import process

    try:
        return process.run(settings, on_ready=_announce)
    except (process.CannotStart, OSError) as problem:
        logger.debug("the node failed", exc_info=True)
        print(f"penstock: {problem}{_remedy(problem)}", file=sys.stderr)
        return FAILED


def read_settings(file: str | None, assignments: Sequence[str]) -> BrokerSettings:
    """The settings of the file, with the assignments of the command line over them, or `Refusal`."""
    properties = _read_file(file) if file is not None else {}
    assigned = dict(map(_read_assignment, assignments))
    try:
        return BrokerSettings.load({**properties, **assigned})
    except BadSetting as bad:
        place = _place_of(bad.key, file, properties, assigned)
        lesson = f"\n`penstock settings {bad.key}` tells more." if find_setting(bad.key) else ""
        raise Refusal(f"{bad}{place}{lesson}") from bad


def _read_file(file: str) -> dict[str, str]:
    try:
        with open(file, "rb") as stream:
            return parse_properties(decode_properties(stream.read()))
    except OSError as problem:
        raise Refusal(
            f"cannot read {file}: {problem.strerror}\n"
            "Name a file of settings, or none to serve on 127.0.0.1:9092 with what is built in."
        ) from problem
    except BadProperties as bad:
        raise Refusal(f"cannot read {file}: {bad}") from bad


def _read_assignment(assignment: str) -> tuple[str, str]:
    key, separator, value = assignment.partition("=")
    if not separator or not key.strip():
        raise Refusal(f"--set {assignment}: must be key=value, such as --set num.partitions=3")
    return key.strip(), value


def _place_of(key: str, file: str | None, properties: dict[str, str], assigned: dict[str, str]) -> str:
    if key in assigned:
        return f"\nIt was said by --set {key}={assigned[key]}."
    return f"\nIt was said in {file}." if key in properties else ""


def _tell_what_has_no_effect(settings: BrokerSettings) -> None:
    not_yet: list[str] = []
    foreign: list[str] = []
    for name in settings.ignored:
        setting = find_setting(name)
        is_to_come = setting is not None and setting.standing is Standing.NOT_YET
        (not_yet if is_to_come else foreign).append(name)
    if not_yet:
        logger.warning("accepted, but not in force in this version: %s", ", ".join(not_yet))
    if foreign:
        logger.info("accepted, but without meaning here: %s", ", ".join(foreign))


def _announce(ready: Ready) -> None:
    addresses, directories = ", ".join(ready.addresses), ", ".join(ready.log_dirs)
    print(
        f"penstock ready: node {ready.node_id} of cluster {ready.cluster_id} serves {addresses} "
        f"(data in {directories})",
        flush=True,
    )


def _remedy(problem: Exception) -> str:
    remedy = REMEDIES.get(problem.errno or 0) if isinstance(problem, OSError) else None
    return f"\n{remedy}" if remedy else ""
