"""The options that select and configure the connection to a cluster.

--bootstrap-server host:port      or PENSTOCK_BOOTSTRAP_SERVERS, or localhost:9092
--command-config file.properties  more client settings, in Kafka's names: security, timeouts
-X key=value                      one client setting; overrides the file
--timeout seconds                 how long to wait for a broker; see `timeouts`
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

from penstock.cli.declare import option
from penstock.cli.failures import Refusal
from penstock.cli.values import read_pairs

if TYPE_CHECKING:
    from penstock.client.admin.calls import AdminCalls

Family = TypeVar("Family", bound="AdminCalls")
Result = TypeVar("Result")

DEFAULT_SERVERS = "localhost:9092"
SERVERS_VARIABLE = "PENSTOCK_BOOTSTRAP_SERVERS"


class Connection(NamedTuple):
    """A bundle of options: add `connection: Connection` to a command's parameters."""

    bootstrap_server: Annotated[
        str | None,
        option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help=f"Brokers of the cluster. By default ${SERVERS_VARIABLE}, else {DEFAULT_SERVERS}.",
            env=SERVERS_VARIABLE,
        ),
    ] = None
    command_config: Annotated[
        str | None,
        option(
            "--command-config",
            metavar="FILE",
            help="A properties file with client settings, in Kafka's names.",
            complete="file",
        ),
    ] = None
    assignments: Annotated[
        tuple[str, ...],
        option(
            "-X",
            aliases=("--command-property",),
            metavar="KEY=VALUE",
            help="A client setting; overrides the file. May be repeated.",
        ),
    ] = ()

    timeout: Annotated[
        float | None,
        option(
            "--timeout",
            metavar="SECONDS",
            help="How long to wait for a broker, by default 30.",
            minimum=0,
        ),
    ] = None

    def settings(self, **defaults: str) -> dict[str, str]:
        """Client settings by Kafka's names: the defaults (underscores stand for dots), then the file, then the
        command line."""
        from penstock.cli.timeouts import timeout_settings

        chosen = client_settings(
            bootstrap_server=self.bootstrap_server,
            file=self.command_config,
            assignments=self.assignments,
            defaults={name.replace("_", "."): value for name, value in defaults.items()},
        )
        return chosen if self.timeout is None else chosen | timeout_settings(self.timeout)

    def with_admin(self, family: type[Family], work: Callable[[Family], Awaitable[Result]]) -> Result:
        """Do the work with a family of admin calls."""
        from penstock.cli.admin import with_admin

        return with_admin(self.settings(), family, work)


def client_settings(
    *,
    bootstrap_server: str | None,
    file: str | None,
    assignments: Iterable[str] = (),
    defaults: dict[str, str] | None = None,
) -> dict[str, str]:
    settings = dict(defaults or {})
    if file is not None:
        settings |= read_properties(file)
    settings |= read_pairs(assignments, option="-X", example="security.protocol=SSL")
    if bootstrap_server is not None:
        settings["bootstrap.servers"] = bootstrap_server
    if "bootstrap.controllers" not in settings:
        settings.setdefault("bootstrap.servers", DEFAULT_SERVERS)
    return settings


def read_properties(file: str) -> dict[str, str]:
    """The settings of a file, or an error that names it."""
    from penstock.config.properties import BadProperties, decode_properties, parse_properties

    with open(file, "rb") as stream:
        try:
            return parse_properties(decode_properties(stream.read()))
        except BadProperties as bad:
            raise Refusal(f"cannot read {file}: {bad}") from bad
