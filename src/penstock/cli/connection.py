"""Which cluster a command talks to: options that all of them share.

--bootstrap-server host:port      or PENSTOCK_BOOTSTRAP_SERVERS, or localhost:9092
--command-config file.properties  more settings of the client, in Kafka's names: security, timeouts
-X key=value                      a setting of the client, which outranks the file
--timeout seconds                 how long to wait for a broker; see `waiting`
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from penstock.cli.declare import Option
from penstock.cli.failures import Misuse, Refusal

DEFAULT_SERVERS = "localhost:9092"
SERVERS_VARIABLE = "PENSTOCK_BOOTSTRAP_SERVERS"


class Connection(NamedTuple):
    """A bundle of options: name it `connection: Connection` among a command's parameters."""

    bootstrap_server: Annotated[
        str | None,
        Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help=f"Brokers of the cluster; {DEFAULT_SERVERS} where nothing is said.",
            env=SERVERS_VARIABLE,
        ),
    ] = None
    command_config: Annotated[
        str | None,
        Option(
            "--command-config",
            metavar="FILE",
            help="Settings of the client in Kafka's own names.",
            complete="file",
        ),
    ] = None
    assignments: Annotated[
        tuple[str, ...],
        Option(
            "-X",
            aliases=("--command-property",),
            metavar="KEY=VALUE",
            help="A setting of the client, for this command only. May be repeated.",
        ),
    ] = ()

    timeout: Annotated[
        float | None,
        Option(
            "--timeout",
            metavar="SECONDS",
            help="How long to wait for a broker that does not answer; 30 by default.",
            minimum=0,
        ),
    ] = None

    def settings(self, **defaults: str) -> dict[str, str]:
        """By Kafka's names, to be given to `Producer`, `Consumer` or `Admin`: defaults (with underscores), then the
        file, then what the command line says."""
        from penstock.cli.waiting import timeout_settings

        chosen = client_settings(
            bootstrap_server=self.bootstrap_server,
            file=self.command_config,
            assignments=self.assignments,
            defaults={name.replace("_", "."): value for name, value in defaults.items()},
        )
        return chosen if self.timeout is None else chosen | timeout_settings(self.timeout)


def client_settings(
    *,
    bootstrap_server: str | None,
    file: str | None,
    assignments: tuple[str, ...] | list[str] = (),
    defaults: dict[str, str] | None = None,
) -> dict[str, str]:
    settings = dict(defaults or {})
    if file is not None:
        settings |= read_properties(file)
    settings |= dict(map(read_assignment, assignments))
    if bootstrap_server is not None:
        settings["bootstrap.servers"] = bootstrap_server
    if "bootstrap.controllers" not in settings:
        settings.setdefault("bootstrap.servers", DEFAULT_SERVERS)
    return settings


def read_properties(file: str) -> dict[str, str]:
    """The settings of a file, or a refusal that names it."""
    from penstock.config.properties import BadProperties, decode_properties, parse_properties

    with open(file, "rb") as stream:
        try:
            return parse_properties(decode_properties(stream.read()))
        except BadProperties as bad:
            raise Refusal(f"cannot read {file}: {bad}") from bad


def read_assignment(text: str) -> tuple[str, str]:
    """`key=value`, both without blanks around them."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise Misuse(f"-X {text}: must be key=value, such as -X security.protocol=SSL")
    return key.strip(), value.strip()
