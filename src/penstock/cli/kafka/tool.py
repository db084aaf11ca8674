"""The declaration of one of Kafka's tools, and how it reads its arguments.

Most of Kafka's tools use jopt-simple: `--name value`, `--name=value`, and any unambiguous prefix of a long name
(`--bootstrap` for `--bootstrap-server`). The others use argparse4j, which has subcommands (`kafka-cluster.sh
cluster-id`). One parser serves both.

On a usage error a tool prints Kafka's message and its flags, and exits with status 1.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.cli.failures import FAILED
from penstock.cli.flags import Flag, Names, OneOf, Rules, Style, UsageError, check_rules, parse

NAME_WIDTH_MAX = 40

KAFKA = Style(
    unknown="{key} is not a recognized option",
    no_value="Option {key} requires an argument",
    unwanted_value=None,
    unexpected="Unexpected argument: {word}",
    required='Missing required argument "[{key}]"',
    needed='Missing required argument "[{key}]"',
    forbidden='Option "[{flag_key}]" can\'t be used with option "[{key}]"',
    abbreviates=True,
    has_short_values=False,
)


def flag(
    name: str,
    help: str,
    value: str | None = None,
    also: Names = (),
    *,
    older: Names = (),
    default: str | None = None,
    is_required: bool = False,
    is_hidden: bool = False,
    takes_rest: bool = False,
    has_optional_value: bool = False,
    implied: str | None = None,
    needs: Rules = (),
    forbids: Rules = (),
) -> Flag:
    """A flag of a tool. `value` names the value that follows; without it the flag is a switch. `also` are other
    names, such as "-t". `older` names have been replaced: if both are given, the value of the current name wins."""
    return Flag(
        name,
        help,
        (f"--{name}", *also, *older),
        superseded=older,
        type=bool if value is None else str,
        metavar=value,
        default=default,
        is_required=is_required,
        is_repeatable=True,
        is_hidden=is_hidden,
        complete=name if name in ("topic", "group") else None,
        takes_rest=takes_rest,
        has_optional_value=has_optional_value or implied is not None,
        implied=implied,
        needs=needs,
        forbids=forbids,
    )


BOOTSTRAP_SERVER = flag("bootstrap-server", "The server(s) to connect to.", "server to connect to")
OLD_SERVERS = ("--broker-list",)  # before Kafka 2.5
BOOTSTRAP_SERVER_OR_BROKER_LIST = BOOTSTRAP_SERVER._replace(aliases=OLD_SERVERS, superseded=OLD_SERVERS)
BOOTSTRAP_CONTROLLER = flag(
    "bootstrap-controller", "The controllers to connect to.", "controller to connect to"
)
COMMAND_CONFIG = flag("command-config", "Property file with client settings.", "command config property file")


def also_named(flag: Flag, *names: str) -> Flag:
    return flag._replace(names=(*flag.names, *names))


class CommandFailed(Exception):
    """The command failed; the message is Kafka's."""


class Options:
    """The parsed arguments, by the long name of each flag. `words` belong to no flag."""

    def __init__(
        self, flags: Sequence[Flag], values: dict[str, list[str]], words: list[str], arguments: Sequence[str]
    ) -> None:
        self._flags = {flag.name: flag for flag in flags}
        self._values = values
        self.words = words
        self.arguments = arguments

    def accepts(self, name: str) -> bool:
        """Whether the tool has such a flag."""
        return name in self._flags

    def has(self, name: str) -> bool:
        """Whether the flag was given; a default does not count."""
        assert name in self._flags, f"--{name} is not a flag of this tool"
        return name in self._values

    def all(self, name: str) -> list[str]:
        """Every value of a flag that may be repeated."""
        if self.has(name):
            return self._values[name]
        default = self._flags[name].default
        return [] if default is None else [default]

    def get(self, name: str) -> str | None:
        """The last value, or the default, or None."""
        values = self.all(name)
        return values[-1] if values else None

    def text(self, name: str) -> str:
        """The value of a flag that is required or has a default."""
        value = self.get(name)
        assert value is not None, f"--{name} is neither required nor has a default"
        return value

    def integer(self, name: str) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise UsageError(f"Cannot parse argument '{value}' of option {name}") from None

    def number(self, name: str) -> int:
        """Like `integer`, for a flag that is required or has a default."""
        value = self.integer(name)
        assert value is not None, f"--{name} is neither required nor has a default"
        return value

    def given(self, names: Iterable[str]) -> str:
        """The flag of this group that was given. `OneOf` ensures that exactly one was."""
        return next(name for name in names if name in self._values)


class Tool:
    """All flags of one tool.

    `commands` are its subcommands, each with the flags that it requires; `program` is the name in their errors.
    `positional` names the words that a tool without subcommands takes; None means that it takes none.
    """

    def __init__(
        self,
        about: str,
        *flags: Flag,
        one_of: Sequence[OneOf] = (),
        program: str = "",
        commands: Mapping[str, Names] | None = None,
        positional: str | None = None,
        needs_arguments: bool = True,
    ) -> None:
        self.about = about
        self.flags = flags
        self.one_of = one_of
        self.program = program
        self.commands = commands or {}
        self.positional = positional
        self.needs_arguments = needs_arguments

    def parse(self, arguments: Sequence[str]) -> Options:
        """Raises `UsageError` if the arguments do not fit the declaration."""
        values, words = parse(self.flags, arguments, KAFKA)
        if self.commands:
            self._check_command(words, values)
        elif words and self.positional is None:
            raise UsageError(KAFKA.unexpected.format(word=words[0]))
        check_rules(self.flags, values, self.one_of, KAFKA)
        return Options(self.flags, values, words, arguments)

    def _check_command(self, words: Sequence[str], values: Mapping[str, object]) -> None:
        """In the words of argparse4j."""
        program = self.program
        if not words:
            raise UsageError(f"{program}: error: too few arguments")
        if words[0] not in self.commands:
            raise UsageError(
                f"{program}: error: invalid choice: '{words[0]}' (choose from {', '.join(self.commands)})"
            )
        if len(words) > 1:
            raise UsageError(f"{program}: error: unrecognized arguments: '{words[1]}'")
        for flag in self.flags:
            if flag.name in self.commands[words[0]] and flag.name not in values:
                raise UsageError(f"{program}: error: argument {'/'.join(flag.names)} is required")

    def run(self, arguments: Sequence[str], work: Callable[[Options], int | None]) -> int:
        """Parse the arguments and do the work. A usage error, from here or from `work`, is printed with the flags."""
        if "--help" in arguments or "-h" in arguments or (self.needs_arguments and not arguments):
            print(f"{self.about}\n{self.usage()}")
            return 0 if arguments else FAILED
        if "--version" in arguments:
            import penstock

            print(penstock.__version__)
            return 0
        try:
            return work(self.parse(arguments)) or 0
        except UsageError as error:
            print(f"{error}\n{self.usage()}", file=sys.stderr)
            return FAILED

    def usage(self) -> str:
        """All flags and their descriptions, in two columns."""
        names = [
            (", ".join(flag.names) + (f" <{flag.metavar}>" if flag.metavar else ""), flag)
            for flag in self.flags
            if not flag.is_hidden
        ]
        left = min(max((len(name) for name, _ in names), default=0), NAME_WIDTH_MAX) + 2
        width = max(30, shutil.get_terminal_size().columns - left)
        lines = [f"{'Option':<{left}}Description", f"{'------':<{left}}-----------"]
        for name, flag in sorted(names, key=lambda named: named[0]):
            meaning = ("REQUIRED: " if flag.is_required else "") + flag.help
            if flag.default is not None:
                meaning += f" (default: {flag.default})"
            wrapped = textwrap.wrap(meaning, width) or [""]
            if len(name) >= left:
                lines.append(name)
                name = ""
            lines.append(f"{name:<{left}}{wrapped[0]}")
            lines += [" " * left + line for line in wrapped[1:]]
        return "\n".join(lines)


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` each; a key alone has an empty value."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def read_settings(options: Options, *, file: str, pairs: str) -> dict[str, str]:
    """Settings from the property file of one flag, then from the `key=value` pairs of another."""
    from penstock.cli.connection import read_properties

    settings: dict[str, str] = {}
    for path in options.all(file):
        settings |= read_properties(path)
    return settings | (parse_pairs(options.all(pairs)) if options.accepts(pairs) else {})


def client_settings(options: Options) -> dict[str, str]:
    """Settings of a producer or consumer, with the servers to connect to."""
    from penstock.cli.connection import DEFAULT_SERVERS

    settings = read_settings(options, file="command-config", pairs="command-property")
    if servers := _servers(options):
        settings["bootstrap.servers"] = servers
    settings.setdefault("bootstrap.servers", DEFAULT_SERVERS)
    return settings


def admin_settings(options: Options) -> dict[str, str]:
    """Settings of an admin client, from --bootstrap-server and --command-config."""
    from penstock.cli.connection import client_settings

    return client_settings(bootstrap_server=_servers(options), file=options.get("command-config"))


def _servers(options: Options) -> str | None:
    from penstock.cli.connection import SERVERS_VARIABLE

    return options.get("bootstrap-server") or os.environ.get(SERVERS_VARIABLE)
