"""Shell completion, from the same declarations that the parser uses.

On Tab a shell runs `penstock complete SHELL -- WORDS` and shows the output; `script_for` returns the shell code for
that. `candidates` decides what fits, and gets names that only a cluster knows (topics, groups) through a function
argument. Completion must never print an error, wait long, or change anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.cli import commands, kafka
from penstock.cli.declare import Command, Group
from penstock.cli.failures import Misuse
from penstock.cli.flags import Flag
from penstock.cli.help import first_line

SHELLS = ("bash", "zsh", "fish")
TIMEOUT_MS = 1_000  # a user does not wait longer for Tab

SCRIPTS = {
    "bash": """\
_penstock_complete() {
    # Not COMP_WORDS: those are cut at every colon, also in host:port.
    local line="${COMP_LINE:0:COMP_POINT}" words
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    local IFS=$'\\n'
    COMPREPLY=($(penstock complete bash -- "${words[@]}" 2>/dev/null))
}
complete -o bashdefault -o default -F _penstock_complete penstock %(tools)s
""",
    "zsh": """\
#compdef penstock %(tools)s
_penstock_complete() {
    local -a found
    found=("${(@f)$(penstock complete zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then
        _describe -o 'penstock' found
    else
        _files
    fi
}
if [[ "$funcstack[1]" == "_penstock" ]]; then
    _penstock_complete "$@"
else
    compdef _penstock_complete penstock %(tools)s
fi
""",
    "fish": """\
function __penstock_complete
    set -l words (commandline -opc) (commandline -ct)
    penstock complete fish -- $words 2>/dev/null
end
for name in penstock %(tools)s
    complete -c $name -a '(__penstock_complete)'
end
""",
}

Ask = Callable[[str], Sequence[str]]  # kind ("topic", "group") -> names


class Candidate(NamedTuple):
    value: str
    help: str = ""


def script_for(shell: str | None) -> str:
    """The shell code that sets completion up; by default for the user's own shell."""
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen not in SCRIPTS:
        raise Misuse(f"name a shell: penstock completion {'|'.join(SHELLS)}")
    return SCRIPTS[chosen] % {"tools": " ".join(f"{tool}.sh" for tool in kafka.TOOLS)}


def format_for(shell: str, found: Sequence[Candidate]) -> str:
    """In the format of the shell; bash shows no descriptions."""
    match shell:
        case "zsh":
            escaped = ((value.replace(":", "\\:"), help) for value, help in found)
            lines = [f"{value}:{help}" if help else value for value, help in escaped]
        case "fish":
            lines = [f"{value}\t{help}" if help else value for value, help in found]
        case _:
            lines = [value for value, _ in found]
    return "".join(f"{line}\n" for line in lines)


def candidates(words: Sequence[str], ask: Ask) -> list[Candidate]:
    """What may replace the last word. The first word is the program."""
    program, *before = words[:-1] or [""]
    current = words[-1]
    name = os.path.basename(program)
    found: Iterator[Candidate] = iter(())
    if kafka.is_tool(name):
        if (tool := kafka.tool_of(name)) is not None:
            found = _of_flags(tool.flags, before, current, ask, subcommands=tool.commands)
    elif not before:
        found = _of_commands(
            {name: commands.load(name) for names in commands.PANELS.values() for name in names}
        )
    elif before[0] in commands.NAMES:
        command = commands.load(before[0])
        if isinstance(command, Command):
            found = _of_flags(command.flags, before[1:], current, ask)
        elif not before[1:]:
            found = _of_commands(command.commands)
        elif before[1] in command.commands:
            found = _of_flags(command.commands[before[1]].flags, before[2:], current, ask)
    return [candidate for candidate in found if candidate.value.startswith(current)]


def _of_commands(named: Mapping[str, Command | Group]) -> Iterator[Candidate]:
    for name, command in named.items():
        if not command.is_hidden:
            yield Candidate(name, first_line(command.help))


def _of_flags(
    flags: Sequence[Flag],
    before: Sequence[str],
    current: str,
    ask: Ask,
    *,
    subcommands: Iterable[str] = (),
) -> Iterator[Candidate]:
    options = {name: flag for flag in flags for name in flag.names}
    previous = options.get(before[-1]) if before else None
    if previous is not None and not previous.is_switch:
        yield from _values(previous, ask)
    elif current.startswith("-"):
        given = {options[word].name for word in before if word in options}
        for name, flag in options.items():
            if flag.is_repeatable or flag.name not in given:
                yield Candidate(name, flag.help)
    else:
        position = _count_positional(before, options)
        arguments = [flag for flag in flags if not flag.names]
        if position < len(arguments):
            yield from _values(arguments[position], ask)
        elif arguments and arguments[-1].is_repeatable:
            yield from _values(arguments[-1], ask)
        elif position == 0:
            yield from map(Candidate, subcommands)


def _count_positional(before: Sequence[str], options: Mapping[str, Flag]) -> int:
    count = 0
    is_value = False
    for word in before:
        if is_value:
            is_value = False
        elif word in options:
            is_value = not options[word].is_switch
        elif not word.startswith("-"):
            count += 1
    return count


def _values(flag: Flag, ask: Ask) -> Iterator[Candidate]:
    if flag.choices:
        yield from map(Candidate, flag.choices)
    elif flag.complete is not None:
        yield from map(Candidate, ask(flag.complete))


def asking(words: Sequence[str]) -> Ask:
    """Asks the cluster that the command line or the environment names."""

    def ask(kind: str) -> list[str]:
        if kind == "setting":
            from penstock.config.tables import BROKER_DYNAMIC

            return sorted(BROKER_DYNAMIC)
        return _ask_cluster(kind, _servers(words)) if kind in ("topic", "group") else []

    return ask


def _servers(words: Sequence[str]) -> str:
    from penstock.cli.connection import DEFAULT_SERVERS, SERVERS_VARIABLE

    servers = os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
    for option, value in pairwise(words):
        if option in ("-b", "--bootstrap-server"):
            servers = value
    for word in words:
        if word.startswith("--bootstrap-server="):
            servers = word.partition("=")[2]
    return servers


def _ask_cluster(kind: str, servers: str) -> list[str]:
    """The current names; none if the cluster does not answer in time."""
    from penstock import Admin
    from penstock.errors import PenstockError

    settings = {
        "bootstrap.servers": servers,
        "default.api.timeout.ms": TIMEOUT_MS,
        "request.timeout.ms": TIMEOUT_MS,
    }
    try:
        with Admin(settings) as admin:
            if kind == "topic":
                return sorted(topic.name for topic in admin.list_topics())
            return sorted(group.group_id for group in admin.list_groups())
    except (PenstockError, OSError):
        return []
