"""How Kafka's tools read their arguments.

Most of them use jopt-simple: `--name value` and `--name=value`, any unambiguous beginning of a long name
(`--bootstrap` for `--bootstrap-server`), values in any order. The rest use argparse4j, which is stricter and has
positional words; both are served by this one reader. What was said is asked for by the long name, without dashes.

A tool that is told something wrong says so in Kafka's words, shows its flags, and ends with 1.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.cli.failures import FAILED

NAME_WIDTH_MAX = 40


class Flag(NamedTuple):
    """One flag. Without a `value` it is a switch; `value` names what follows it."""

    name: str
    help: str
    value: str | None = None
    shorts: tuple[str, ...] = ()  # other names: "-t", "--old-name"
    default: str | None = None
    is_required: bool = False
    takes_rest: bool = False  # several words may follow: `--producer-props a=b c=d`
    alone: str | None = None  # what is meant where no value follows: `--compression-codec` alone is gzip
    may_be_alone: bool = False  # `--state`, or `--state Stable`
    is_hidden: bool = False

    @property
    def long(self) -> str:
        return f"--{self.name}"


class BadFlags(Exception):
    """What was said is not what the tool takes; the words are Kafka's."""


class HelpWanted(Exception):
    """`--help`, or nothing at all said to a tool that needs something."""


class VersionWanted(Exception):
    """`--version`."""


class Said:
    """What a line said, by the long names of flags; `words` are what stood without a flag."""

    def __init__(self, flags: Sequence[Flag], values: dict[str, list[str]], words: list[str]) -> None:
        self._flags = {flag.name: flag for flag in flags}
        self._values = values
        self.words = words

    def may_say(self, name: str) -> bool:
        """Whether the tool has such a flag."""
        return name in self._flags

    def has(self, name: str) -> bool:
        """Whether it was said itself; a default does not count."""
        assert name in self._flags, f"--{name} is not a flag of this tool"
        return name in self._values

    def all(self, name: str) -> list[str]:
        """Every value of a flag that may be said several times."""
        if self.has(name):
            return self._values[name]
        default = self._flags[name].default
        return [] if default is None else [default]

    def get(self, name: str) -> str | None:
        """The last value, or the default, or None."""
        values = self.all(name)
        return values[-1] if values else None

    def text(self, name: str) -> str:
        """The value of a flag that is required, or has a default."""
        value = self.get(name)
        assert value is not None, f"--{name} is neither required nor has it a default"
        return value

    def integer(self, name: str) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise BadFlags(f"Cannot parse argument '{value}' of option {name}") from None

    def number(self, name: str) -> int:
        """As `integer`, of a flag that is required, or has a default."""
        value = self.integer(name)
        assert value is not None, f"--{name} is neither required nor has it a default"
        return value


class Flags:
    """All flags of one tool."""

    def __init__(
        self,
        about: str,
        *flags: Flag,
        words: str | None = None,
        needs_something: bool = True,
    ) -> None:
        self.about = about
        self.flags = flags
        self.words = words  # names what may stand without a flag, or None where nothing may
        self.needs_something = needs_something
        self._by_name = {name: flag for flag in flags for name in (flag.long, *flag.shorts)}

    def read(self, arguments: Sequence[str]) -> Said:
        """What was said, or `BadFlags`, `HelpWanted`, `VersionWanted`."""
        if "--help" in arguments or "-h" in arguments or (self.needs_something and not arguments):
            raise HelpWanted
        if "--version" in arguments:
            raise VersionWanted
        values: dict[str, list[str]] = {}
        words: list[str] = []
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if not word.startswith("-") or word == "-":
                words.append(word)
                continue
            name, separator, value = word.partition("=")
            flag = self._find(name)
            taken = values.setdefault(flag.name, [])
            if flag.value is None:
                continue
            if separator:
                taken.append(value)
            elif flag.may_be_alone and (not rest or rest[0].startswith("-")):
                continue
            elif flag.alone is not None and (not rest or rest[0].startswith("-")):
                taken.append(flag.alone)
            elif not rest:
                raise BadFlags(f"Option {flag.name} requires an argument")
            else:
                taken.append(rest.pop(0))
                while flag.takes_rest and rest and not rest[0].startswith("-"):
                    taken.append(rest.pop(0))
        if words and self.words is None:
            raise BadFlags(f"Unexpected argument: {words[0]}")
        said = Said(self.flags, values, words)
        for flag in self.flags:
            if flag.is_required and not said.has(flag.name):
                raise BadFlags(f'Missing required argument "[{flag.name}]"')
        return said

    def _find(self, name: str) -> Flag:
        if name in self._by_name:
            return self._by_name[name]
        if name.startswith("--"):
            meant = {flag for known, flag in self._by_name.items() if known.startswith(name)}
            if len(meant) == 1:
                return meant.pop()
        raise BadFlags(f"{name.lstrip('-')} is not a recognized option")

    def usage(self, *, width: int) -> str:
        """All flags and what they mean, in two columns."""
        names = [
            (", ".join((flag.long, *flag.shorts)) + (f" <{flag.value}>" if flag.value else ""), flag)
            for flag in self.flags
            if not flag.is_hidden
        ]
        left = min(max((len(name) for name, _ in names), default=0), NAME_WIDTH_MAX) + 2
        lines = [f"{'Option':<{left}}Description", f"{'------':<{left}}-----------"]
        for name, flag in sorted(names):
            meaning = ("REQUIRED: " if flag.is_required else "") + flag.help
            if flag.default is not None:
                meaning += f" (default: {flag.default})"
            told = textwrap.wrap(meaning, max(30, width - left)) or [""]
            if len(name) >= left:
                lines.append(name)
                name = ""
            lines.append(f"{name:<{left}}{told[0]}")
            lines += [" " * left + line for line in told[1:]]
        return "\n".join(lines)


def run_tool(flags: Flags, arguments: Sequence[str], work: Callable[[Said], int | None]) -> int:
    """Read the arguments and do the work; what was said wrong, here or in `work`, is told with the flags."""
    width = shutil.get_terminal_size().columns
    try:
        return work(flags.read(arguments)) or 0
    except HelpWanted:
        print(flags.about)
        print(flags.usage(width=width))
        return 0 if arguments else FAILED
    except VersionWanted:
        import penstock

        print(penstock.__version__)
        return 0
    except BadFlags as bad:
        print(bad, file=sys.stderr)
        print(flags.usage(width=width), file=sys.stderr)
        return FAILED


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` each; a key alone has an empty value."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def client_properties(
    said: Said, *, files: Sequence[str], properties: Sequence[str], server: str = "bootstrap-server"
) -> dict[str, str]:
    """Settings of a producer or consumer: of files, then of single properties, then the servers to connect to.

    Flags have been renamed over the years, and the old names still work; so there are several for the same thing.
    """
    import os

    from penstock.cli.connection import DEFAULT_SERVERS, SERVERS_VARIABLE, read_properties

    settings: dict[str, str] = {}
    for name in files:
        for file in said.all(name):
            settings |= read_properties(file)
    for name in properties:
        settings |= parse_pairs(said.all(name))
    servers = said.get(server) or os.environ.get(SERVERS_VARIABLE)
    if servers:
        settings["bootstrap.servers"] = servers
    settings.setdefault("bootstrap.servers", DEFAULT_SERVERS)
    return settings


BOOTSTRAP_SERVER = Flag("bootstrap-server", "The server(s) to connect to.", "server to connect to")
COMMAND_CONFIG = Flag(
    "command-config", "Property file with settings of the client.", "command config property file"
)


def settings_of(
    said: Said, *, server: str = "bootstrap-server", file: str | None = "command-config"
) -> dict[str, str]:
    """Settings of a client by the flags that most tools have."""
    import os

    from penstock.cli.connection import SERVERS_VARIABLE, client_settings

    return client_settings(
        bootstrap_server=said.get(server) or os.environ.get(SERVERS_VARIABLE),
        file=said.get(file) if file else None,
    )
