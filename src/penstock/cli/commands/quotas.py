"""`penstock quotas`: how much users, clients and addresses may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output

if TYPE_CHECKING:
    from penstock.client.admin.quotas import QuotaEntity

command = Group(help="Tell and change quotas of users, clients and addresses.")


class Entity(NamedTuple):
    """Whom a quota is for: a bundle of options."""

    user: Annotated[str | None, Option("--user", help="A user.")] = None
    user_default: Annotated[bool, Option("--user-default", help="Users without quotas of their own.")] = False
    client_id: Annotated[str | None, Option("--client-id", help="A client.id.")] = None
    client_id_default: Annotated[
        bool, Option("--client-id-default", help="Clients without quotas of their own.")
    ] = False
    ip: Annotated[str | None, Option("--ip", help="An address.")] = None
    ip_default: Annotated[bool, Option("--ip-default", help="Addresses without quotas of their own.")] = False

    def read(self) -> QuotaEntity:
        from penstock.cli.failures import Misuse
        from penstock.client.admin.quotas import QuotaEntity

        names: dict[str, str | None] = {}
        for kind, name, is_default in (
            ("user", self.user, self.user_default),
            ("client_id", self.client_id, self.client_id_default),
            ("ip", self.ip, self.ip_default),
        ):
            if name is not None and is_default:
                raise Misuse(f"--{kind.replace('_', '-')} is either one or the default, not both")
            if name is not None or is_default:
                names[kind] = name
        if not names:
            raise Misuse("say whom it is for: --user, --client-id, --ip, or one of them with -default")
        return QuotaEntity.of(**names)


@command.command("list", examples=["penstock quotas list", "penstock quotas list --json"])
def list_quotas(*, connection: Connection, output: Output) -> None:
    """Tell all quotas that are set."""
    from penstock.cli.asking import ask
    from penstock.client.admin.quotas import QuotasAdmin

    found = ask(connection.settings(), QuotasAdmin, lambda admin: admin.describe_quotas())
    output.table(
        ["user", Column("client_id", "client id"), "ip", "quota", "value"],
        [
            (*(_shown(entity, kind) for kind in ("user", "client-id", "ip")), name, value)
            for entity, quotas in sorted(found.items(), key=lambda item: str(item[0]))
            for name, value in sorted(quotas.items())
        ],
        empty="No quotas are set.",
    )


def _shown(entity: QuotaEntity, kind: str) -> str | None:
    parts = dict(entity.parts)
    return None if kind not in parts else parts[kind] or "<default>"


@command.command(
    "set",
    examples=[
        "penstock quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
        "penstock quotas set --client-id-default request_percentage=50",
    ],
)
def set_quotas(
    values: Annotated[
        list[str],
        Argument(
            metavar="QUOTA=VALUE...",
            help="producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate or "
            "connection_creation_rate.",
        ),
    ],
    *,
    entity: Entity,
    connection: Connection,
    output: Output,
) -> None:
    """Set quotas of a user, a client or an address."""
    from penstock.cli.asking import ask, read_pairs
    from penstock.cli.failures import Misuse
    from penstock.client.admin.quotas import QuotasAdmin

    whom = entity.read()
    rates: dict[str, float] = {}
    for name, text in read_pairs(values, option="").items():
        try:
            rates[name] = float(text)
        except ValueError:
            raise Misuse(f"{name}={text}: a quota is a number") from None
    ask(connection.settings(), QuotasAdmin, lambda admin: admin.alter_quota(whom, rates))
    output.result(
        f"set {', '.join(f'{name}={value:g}' for name, value in rates.items())} for {whom}",
        {"entity": dict(whom.parts), "quotas": rates},
    )


@command.command("unset", examples=["penstock quotas unset --user alice producer_byte_rate"])
def unset_quotas(
    names: Annotated[list[str], Argument(metavar="QUOTA...", help="Names of quotas.")],
    *,
    entity: Entity,
    connection: Connection,
    output: Output,
) -> None:
    """Remove quotas of a user, a client or an address."""
    from penstock.cli.asking import ask
    from penstock.client.admin.quotas import QuotasAdmin

    whom = entity.read()
    ask(connection.settings(), QuotasAdmin, lambda admin: admin.alter_quota(whom, unset=names))
    output.result(f"removed {', '.join(names)} of {whom}", {"entity": dict(whom.parts), "removed": names})
