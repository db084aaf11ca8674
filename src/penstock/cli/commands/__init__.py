"""One module per command, with a `command` that is a `Command` or a `Group`.

Only the named command is imported. Its module imports at the top only what declares its options; everything else is
imported inside its functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.cli.declare import Command, Group

# The headings of `penstock --help`, in order.
PANELS = {
    "Records": ("produce", "consume", "perf"),
    "Cluster": (
        "topics",
        "configs",
        "groups",
        "offsets",
        "transactions",
        "cluster",
        "quorum",
        "features",
        "log-dirs",
        "reassign",
        "leaders",
        "acls",
        "quotas",
        "users",
    ),
    "Monitoring": ("top",),
    "Pipelines": ("pipeline", "spark"),
    "Server": ("serve", "settings", "storage", "logs", "demo"),
    "This program": ("version", "completion", "complete"),
}

NAMES = frozenset(name for names in PANELS.values() for name in names)


def load(name: str) -> Command | Group:
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    command: Command | Group = module.command
    return command
