"""`penstock serve`: read the settings, start a node, and run it until a signal stops it.

An error message contains the reason, where the setting comes from, and what to do next. Only the line that begins
with `penstock ready` goes to stdout; a script may wait for it.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.connection import read_properties
from penstock.cli.failures import FAILED, Misuse, Refusal
from penstock.cli.logs import set_up_logging
from penstock.cli.values import read_pairs
from penstock.config.broker import BrokerSettings, find_setting
from penstock.config.declare import Support
from penstock.config.errors import BadSetting

if TYPE_CHECKING:
    from penstock.node.process import Ready

logger = logging.getLogger(__name__)

DEFAULT_PORT = 9092

# Advice for errors of the operating system.
REMEDIES = {
    errno.EACCES: "Choose a directory that you may write to: --set log.dirs=DIRECTORY",
    errno.EROFS: "Choose a directory that can be written to: --set log.dirs=DIRECTORY",
    errno.ENOSPC: "Free some space, or choose a directory on another disk: --set log.dirs=DIRECTORY",
}


def serve(file: str | None, assignments: Sequence[str], *, log_level: str) -> int:
    """Run a node until a signal stops it. Returns the exit status."""
    settings = read_settings(file, assignments)
    set_up_logging(log_level)
    _log_ignored(settings)

    # Most of the code: imported only if the settings are valid.
    from penstock.node import process

    try:
        return process.run(settings, on_ready=_announce)
    except (process.CannotStart, OSError) as problem:
        logger.debug("the node failed", exc_info=True)
        print(f"penstock: {problem}{_remedy(problem)}", file=sys.stderr)
        return FAILED


def address_settings(data: str | None, host: str | None, port: int | None) -> tuple[str, ...]:
    """The settings of --data, --host and --port."""
    settings = []
    if data is not None:
        settings.append(f"log.dirs={data}")
    if host is not None or port is not None:
        settings.append(f"listeners=PLAINTEXT://{host or '127.0.0.1'}:{port or DEFAULT_PORT}")
    return tuple(settings)


def read_settings(file: str | None, assignments: Sequence[str]) -> BrokerSettings:
    """The settings of the file and the command line, or `Misuse`."""
    properties = read_properties_file(file) if file is not None else {}
    assigned = read_pairs(assignments, option="--set", example="num.partitions=3")
    try:
        return BrokerSettings.load({**properties, **assigned})
    except BadSetting as bad:
        place = _place_of(bad.key, file, properties, assigned)
        hint = f"\n`penstock settings {bad.key}` explains it." if find_setting(bad.key) else ""
        raise Misuse(f"{bad}{place}{hint}") from bad


def read_properties_file(file: str) -> dict[str, str]:
    try:
        return read_properties(file)
    except OSError as problem:
        raise Misuse(
            f"cannot read {file}: {problem.strerror}\n"
            "Name an existing properties file. `penstock serve` without one uses the default settings."
        ) from problem
    except Refusal as bad:
        raise Misuse(str(bad)) from bad


def _place_of(key: str, file: str | None, properties: dict[str, str], assigned: dict[str, str]) -> str:
    if key in assigned:
        return f"\nIt comes from --set {key}={assigned[key]}."
    return f"\nIt comes from {file}." if key in properties else ""


def _log_ignored(settings: BrokerSettings) -> None:
    not_yet: list[str] = []
    foreign: list[str] = []
    for name in settings.ignored:
        setting = find_setting(name)
        is_planned = setting is not None and setting.support is Support.NOT_YET
        (not_yet if is_planned else foreign).append(name)
    if not_yet:
        logger.warning("ignoring settings that are not implemented yet: %s", ", ".join(not_yet))
    if foreign:
        logger.info("ignoring settings that only apply to Apache Kafka: %s", ", ".join(foreign))


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
