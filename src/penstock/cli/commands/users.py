"""`penstock users`: SCRAM credentials."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

command = Group(help="List, set and delete passwords of users (SCRAM credentials).")

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

USER = argument(help="The user's name.")
MECHANISM = option("--mechanism", "-m", help="The SCRAM mechanism.")


@command.command("list", examples=["penstock users list", "penstock users list alice --json"])
def list_users(
    users: Annotated[tuple[str, ...], argument(metavar="USER...", help="Users, by default all.")] = (),
    *,
    connection: Connection,
    output: Output,
) -> None:
    """List users and their SCRAM mechanisms. Passwords cannot be shown."""
    from penstock.client.admin.users import UsersAdmin

    found = connection.with_admin(UsersAdmin, lambda admin: admin.describe_users(list(users) or None))
    output.table(
        ["user", "mechanism", "iterations"],
        [
            (user, credential.mechanism.spelled, credential.iterations)
            for user, credentials in sorted(found.items())
            for credential in credentials
        ],
        empty="No user has a password.",
    )


@command.command(
    "set-password",
    examples=[
        "penstock users set-password alice",
        "penstock users set-password alice --mechanism SCRAM-SHA-512 < password.txt",
    ],
)
def set_password(
    user: Annotated[str, USER],
    *,
    connection: Connection,
    output: Output,
    mechanism: Annotated[Mechanism, MECHANISM] = "SCRAM-SHA-256",
    iterations: Annotated[
        int | None, option("--iterations", help="Iterations of the hash.", minimum=4096, maximum=16384)
    ] = None,
) -> None:
    """Set a password, which is read from the terminal or stdin. Only its hash is sent."""
    from penstock.client.admin.users import ITERATIONS, ScramMechanism, UsersAdmin

    password = _read_password(user)
    connection.with_admin(
        UsersAdmin,
        lambda admin: admin.set_password(
            user, password, mechanism=ScramMechanism.of(mechanism), iterations=iterations or ITERATIONS
        ),
    )
    output.result(f"{user} can log in with {mechanism}", {"user": user, "mechanism": mechanism})


def _read_password(user: str) -> str:
    from penstock.cli.failures import Refusal

    if sys.stdin.isatty():
        from getpass import getpass

        password = getpass(f"Password of {user}: ")
        if getpass("Again: ") != password:
            raise Refusal("the passwords differ; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise Refusal("the password is empty; type it, or send it to stdin")
    return password


@command.command("delete-password", examples=["penstock users delete-password alice"])
def delete_password(
    user: Annotated[str, USER],
    *,
    connection: Connection,
    output: Output,
    mechanism: Annotated[Mechanism, MECHANISM] = "SCRAM-SHA-256",
) -> None:
    """Delete a user's password. Open connections stay open."""
    from penstock.client.admin.users import ScramMechanism, UsersAdmin

    connection.with_admin(
        UsersAdmin,
        lambda admin: admin.delete_password(user, mechanism=ScramMechanism.of(mechanism)),
    )
    output.result(f"{user} can no longer log in with {mechanism}", {"user": user, "mechanism": mechanism})
