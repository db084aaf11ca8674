"""`penstock settings`: all settings, from the same declarations that validate them.

On a terminal it prints a table, or a page for a single setting; in a pipe one tab-separated line per setting.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping

from penstock.cli.failures import FAILED
from penstock.cli.output import Output
from penstock.config.broker import BrokerSettings
from penstock.config.declare import Dynamic, Setting
from penstock.config.tables import BROKER_DYNAMIC, GROUP, TOPIC
from penstock.config.tables import group as group_table
from penstock.config.tables import topic as topic_table
from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER

TABLES: Mapping[str, Mapping[str, Setting]] = {
    "broker": BROKER_DYNAMIC,
    "topic": TOPIC,
    "group": GROUP,
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "admin": ADMIN,
}
CLIENTS = ("producer", "consumer", "admin")

COLUMNS = ("name", "default", "allowed", "changes", "documentation")


def show_settings(
    name: str | None,
    *,
    of: str = "broker",
    in_force: bool,
    on_terminal: bool,
    as_json: bool = False,
) -> int:
    """Print the settings of one of `TABLES` whose name contains `name`. Returns the exit status."""
    chosen = choose(TABLES[of], name, in_force=in_force)
    if not chosen:
        print(f"penstock: {_not_found(name, of)}", file=sys.stderr)
        return FAILED
    if name is not None and name not in TABLES[of] and (flags := _flags_for(name)):
        print(f"{name} itself is not a {of} setting: try {flags}", file=sys.stderr)
    rows = [_row(setting, of) for setting in chosen]
    if as_json:
        Output(as_json=True).table(COLUMNS, rows)
    elif not on_terminal:
        for row in rows:
            print(*row, sep="\t")
    elif len(chosen) == 1:
        _print_page(chosen[0], of)
    else:
        _print_table(chosen)
    return 0


def choose(table: Mapping[str, Setting], name: str | None, *, in_force: bool) -> list[Setting]:
    """The setting with this name, or else all whose names contain it."""
    if name is not None and name in table:
        return [table[name]]
    return [
        setting
        for key, setting in sorted(table.items())
        if (name is None or name in key) and (setting.applies or not in_force) and not setting.is_internal
    ]


def _not_found(name: str | None, of: str) -> str:
    if flags := _flags_for(name):
        return f"{name} is not a {of} setting; try {flags}"
    for table in (TABLES[of], *TABLES.values()):
        if near := difflib.get_close_matches(str(name), table, n=1, cutoff=0.75):
            where = "" if table is TABLES[of] else f" It needs {_flags_for(near[0])}."
            return f"unknown setting {name}; did you mean {near[0]}?{where}"
    return f"no setting has {name} in its name"


def _flags_for(name: str | None) -> str:
    """The options that select the other tables with this setting."""
    return " or ".join(f"--{kind}" for kind, table in TABLES.items() if kind != "broker" and name in table)


def _row(setting: Setting, of: str) -> tuple[str, ...]:
    return setting.name, _default(setting), setting.allowed, _changes(setting, of), setting.documentation


def _print_page(setting: Setting, of: str) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    facts.add_row("allowed", setting.allowed)
    facts.add_row("default", _default(setting))
    facts.add_row("changes", _changes(setting, of))
    if of in CLIENTS:
        facts.add_row("keyword", setting.name.replace(".", "_"))
    for name in () if of in CLIENTS else _elsewhere(setting.name):
        facts.add_row("see also", name)
    console = Console()
    console.print(f"[bold]{setting.name}[/bold]\n")
    console.print(Padding(setting.documentation, (0, 2)))
    console.print()
    console.print(Padding(facts, (0, 2)))


def _print_table(settings: Iterable[Setting]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 1, 0))
    for heading in ("setting", "default", "documentation"):
        table.add_column(heading, overflow="fold")
    for setting in settings:
        table.add_row(
            setting.name, _default(setting), setting.documentation, style=None if setting.applies else "dim"
        )
    Console().print(table)


def _default(setting: Setting) -> str:
    default = setting.default
    if setting is BROKER_DYNAMIC.get(setting.name):  # log.dirs depends on the user
        default = BrokerSettings.load({}).default(setting.name)
    text = setting.show(default)
    return "none" if text is None else text or "empty"


def _changes(setting: Setting, of: str) -> str:
    if of != "broker":
        return f"with a new {of}" if of in CLIENTS else "at runtime"
    match setting.dynamic:
        case Dynamic.READ_ONLY:
            return "at startup"
        case Dynamic.PER_BROKER:
            return "at runtime, per broker"
        case Dynamic.CLUSTER_WIDE:
            return "at runtime, per broker or cluster-wide"


def _elsewhere(name: str) -> list[str]:
    """The names of the same setting for topics, groups and brokers."""
    names: set[str] = set()
    for topic_name, synonyms in topic_table.BROKER_SYNONYMS.items():
        alike = {topic_name, *(synonym.name for synonym in synonyms)}
        if name in alike:
            names |= alike
    for group_name, synonym in group_table.BROKER_SYNONYMS.items():
        if name in (group_name, synonym):
            names |= {group_name, synonym}
    return sorted(names - {name})
