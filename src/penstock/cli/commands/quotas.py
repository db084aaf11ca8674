"""`penstock quotas`: quotas of users, client ids and IP addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

if TYPE_CHECKING:
    from penstock.client.admin.quotas import QuotaEntity

command = Group(help="Show and change quotas of users, client ids and IP addresses.")


class Entity(NamedTuple):
    """The entity of a quota: a bundle of options."""

    user: Annotated[str | None, option("--user", help="A user.", forbids=("user_default",))] = None
    user_default: Annotated[bool, option("--user-default", help="The default of all users.")] = False
    client_id: Annotated[
        str | None, option("--client-id", help="A client.id.", forbids=("client_id_default",))
    ] = None
    client_id_default: Annotated[
        bool, option("--client-id-default", help="The default of all client ids.")
    ] = False
    ip: Annotated[str | None, option("--ip", help="An IP address.", forbids=("ip_default",))] = None
    ip_default: Annotated[bool, option("--ip-default", help="The default of all IP addresses.")] = False

    def read(self) -> QuotaEntity:
        from penstock.cli.failures import Misuse
        from penstock.client.admin.quotas import QuotaEntity

        kinds = (
            ("user", self.user, self.user_default),
            ("client_id", self.client_id, self.client_id_default),
            ("ip", self.ip, self.ip_default),
        )
        names = {kind: name for kind, name, is_default in kinds if name is not None or is_default}
        if not names:
            raise Misuse("name the entity: --user, --client-id, --ip, or one of them with -default")
        return QuotaEntity.of(**names)


@command.command("list", examples=["penstock quotas list", "penstock quotas list --json"])
def list_quotas(*, connection: Connection, output: Output) -> None:
    """List all quotas."""
    from penstock.client.admin.quotas import QuotasAdmin

    found = connection.with_admin(QuotasAdmin, lambda admin: admin.describe_quotas())
    output.table(
        ["user", "client_id", "ip", "quota", "value"],
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
        argument(
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
    """Set quotas of a user, a client id or an IP address."""
    from penstock.cli.failures import Misuse
    from penstock.cli.values import read_pairs
    from penstock.client.admin.quotas import QuotasAdmin

    target = entity.read()
    rates: dict[str, float] = {}
    for name, text in read_pairs(values, option="").items():
        try:
            rates[name] = float(text)
        except ValueError:
            raise Misuse(f"{name}={text}: a quota must be a number") from None
    connection.with_admin(QuotasAdmin, lambda admin: admin.alter_quota(target, rates))
    output.result(
        f"set {', '.join(f'{name}={value:g}' for name, value in rates.items())} for {target}",
        {"entity": dict(target.parts), "quotas": rates},
    )


@command.command("unset", examples=["penstock quotas unset --user alice producer_byte_rate"])
def unset_quotas(
    names: Annotated[list[str], argument(metavar="QUOTA...", help="Names of quotas.")],
    *,
    entity: Entity,
    connection: Connection,
    output: Output,
) -> None:
    """Remove quotas of a user, a client id or an IP address."""
    from penstock.client.admin.quotas import QuotasAdmin

    target = entity.read()
    connection.with_admin(QuotasAdmin, lambda admin: admin.alter_quota(target, unset=names))
    output.result(f"removed {', '.join(names)} of {target}", {"entity": dict(target.parts), "removed": names})
