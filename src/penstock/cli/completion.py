"""What can come next on a command line, from the same declarations that read it.

A shell runs `penstock complete SHELL -- WORDS` when Tab is pressed and shows what that prints; `script_for` has the
few lines that make it do so. `candidates` decides, and asks for what only a cluster knows (topics, groups) by a
function that it is given. Completing must never print an error, wait for long, or change anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.cli import commands, kafka
from penstock.cli.declare import Command, Group, Parameter, arguments_of, options_of
from penstock.cli.failures import Misuse

SHELLS = ("bash", "zsh", "fish")
PATIENCE_MS = 1_000  # nobody waits longer for Tab

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

Ask = Callable[[str], Sequence[str]]  # by kind ("topic", "group"): the names that there are


class Candidate(NamedTuple):
    value: str
    help: str = ""


def script_for(shell: str | None) -> str:
    """What a shell has to run to complete our commands; by default the shell that the user has."""
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen not in SCRIPTS:
        raise Misuse(f"say which shell: penstock completion {'|'.join(SHELLS)}")
    return SCRIPTS[chosen] % {"tools": " ".join(f"{tool}.sh" for tool in kafka.TOOLS)}


def format_for(shell: str, found: Sequence[Candidate]) -> str:
    """As the shell reads it; bash has no place for a description."""
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
    """What may stand in the place of the last of these words; the first one is the program."""
    program, *before = words[:-1] or [""]
    current = words[-1]
    name = os.path.basename(program)
    if kafka.is_tool(name):
        found = _of_tool(name, before, current, ask)
    elif not before:
        found = _of_commands()
    elif before[0] in commands.NAMES:
        found = _of_command(commands.load(before[0]), before[1:], current, ask)
    else:
        found = iter(())
    return [candidate for candidate in found if candidate.value.startswith(current)]


def _of_commands() -> Iterator[Candidate]:
    for names in commands.PANELS.values():
        for name in names:
            command = commands.load(name)
            if not command.is_hidden:
                yield Candidate(name, _first_sentence(command.help))


def _of_command(
    command: Command | Group, before: Sequence[str], current: str, ask: Ask
) -> Iterator[Candidate]:
    if isinstance(command, Group):
        if not before:
            for name, part in command.commands.items():
                if not part.is_hidden:
                    yield Candidate(name, _first_sentence(part.help))
        elif before[0] in command.commands:
            yield from _of_command(command.commands[before[0]], before[1:], current, ask)
        return
    options = options_of(command.parameters)
    if before and before[-1] in options and not options[before[-1]].is_switch:
        yield from _values(options[before[-1]], ask)
    elif current.startswith("-"):
        said = {options[word].name for word in before if word in options}
        for name, option in options.items():
            if option.is_many or option.name not in said:
                yield Candidate(name, option.declared.help)
        yield Candidate("--help", "Tell more of this command.")
    elif (argument := _argument_at(command, before, options)) is not None:
        yield from _values(argument, ask)


def _argument_at(command: Command, before: Sequence[str], options: dict[str, Parameter]) -> Parameter | None:
    """Which argument the next word without a dash is."""
    count = 0
    is_value = False
    for word in before:
        if is_value:
            is_value = False
        elif word in options:
            is_value = not options[word].is_switch
        elif not word.startswith("-"):
            count += 1
    arguments = arguments_of(command.parameters)
    if count < len(arguments):
        return arguments[count]
    return arguments[-1] if arguments and arguments[-1].is_many else None


def _values(parameter: Parameter, ask: Ask) -> Iterator[Candidate]:
    if parameter.choices:
        yield from map(Candidate, parameter.choices)
    elif parameter.declared.complete is not None:
        yield from map(Candidate, ask(parameter.declared.complete))


def _of_tool(name: str, before: Sequence[str], current: str, ask: Ask) -> Iterator[Candidate]:
    flags = kafka.flags_of(name)
    if flags is None:
        return
    if before and before[-1] in ("--topic", "--group"):
        yield from map(Candidate, ask(before[-1].removeprefix("--")))
    elif current.startswith("-"):
        for flag in flags.flags:
            yield Candidate(flag.long, flag.help)


def _first_sentence(help: str) -> str:
    return help.strip().partition("\n")[0]


def asking(words: Sequence[str]) -> Ask:
    """Asks the cluster that the line so far, or the environment, names."""

    def ask(kind: str) -> list[str]:
        if kind == "setting":
            from penstock.config.tables import BROKER_DYNAMIC

            return sorted(BROKER_DYNAMIC)
        return _ask_cluster(kind, _servers(words)) if kind in ("topic", "group") else []

    return ask


def _servers(words: Sequence[str]) -> str:
    from penstock.cli.connection import DEFAULT_SERVERS, SERVERS_VARIABLE

    said = os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
    for option, value in pairwise(words):
        if option in ("-b", "--bootstrap-server"):
            said = value
    for word in words:
        if word.startswith("--bootstrap-server="):
            said = word.partition("=")[2]
    return said


def _ask_cluster(kind: str, servers: str) -> list[str]:
    """Names as they are now; nothing where nobody answers in time."""
    from penstock import Admin
    from penstock.errors import PenstockError

    settings = {
        "bootstrap.servers": servers,
        "default.api.timeout.ms": PATIENCE_MS,
        "request.timeout.ms": PATIENCE_MS,
    }
    try:
        with Admin(settings) as admin:
            if kind == "topic":
                return sorted(topic.name for topic in admin.list_topics())
            return sorted(group.group_id for group in admin.list_groups())
    except (PenstockError, OSError):
        return []
