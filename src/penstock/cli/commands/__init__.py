"""One file a command, named after it; its `command` is a `Command` or a `Group`.

Nothing is imported here: a line loads the one command that it names. A module of this package imports at its top
only what declares its options; what it works with, it imports inside its functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.cli.declare import Command, Group

# In the order, and under the headings, of `penstock --help`.
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
    "Watching": ("top",),
    "Pipelines": ("pipeline", "spark"),
    "Server": ("serve", "settings", "storage", "logs", "demo"),
    "This program": ("version", "completion", "complete"),
}

NAMES = frozenset(name for names in PANELS.values() for name in names)


def load(name: str) -> Command | Group:
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    command: Command | Group = module.command
    return command
