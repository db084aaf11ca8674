"""`penstock users`: who may log in by a password (SCRAM)."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Output

command = Group(help="Tell, add and remove users who log in by a password (SCRAM).")

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

USER = Argument(help="The user's name.")
MECHANISM = Option("--mechanism", "-m", help="How the password is kept and proved.")


@command.command("list", examples=["penstock users list", "penstock users list alice --json"])
def list_users(
    users: Annotated[
        tuple[str, ...], Argument(metavar="USER...", help="Users; all where none is named.")
    ] = (),
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Tell which users have passwords, and of which kind. The passwords themselves nobody can tell."""
    from penstock.cli.asking import ask
    from penstock.client.admin.users import UsersAdmin

    found = ask(connection.settings(), UsersAdmin, lambda admin: admin.describe_users(list(users) or None))
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
        int | None, Option("--iterations", help="How often it is hashed.", minimum=4096, maximum=16384)
    ] = None,
) -> None:
    """Let a user log in by a password, which is asked for, or read from stdin. It is hashed before it is sent."""
    from penstock.cli.asking import ask
    from penstock.client.admin.users import ITERATIONS, ScramMechanism, UsersAdmin

    password = _read_password(user)
    ask(
        connection.settings(),
        UsersAdmin,
        lambda admin: admin.set_password(
            user, password, mechanism=ScramMechanism.of(mechanism), iterations=iterations or ITERATIONS
        ),
    )
    output.result(f"{user} can log in by {mechanism}", {"user": user, "mechanism": mechanism})


def _read_password(user: str) -> str:
    from penstock.cli.failures import Refusal

    if sys.stdin.isatty():
        from getpass import getpass

        password = getpass(f"Password of {user}: ")
        if getpass("Again: ") != password:
            raise Refusal("the two are not the same; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise Refusal("no password was given; type it, or send it to stdin")
    return password


@command.command("delete-password", examples=["penstock users delete-password alice"])
def delete_password(
    user: Annotated[str, USER],
    *,
    connection: Connection,
    output: Output,
    mechanism: Annotated[Mechanism, MECHANISM] = "SCRAM-SHA-256",
) -> None:
    """Take a user's password of one kind away. Who is logged in stays so."""
    from penstock.cli.asking import ask
    from penstock.client.admin.users import ScramMechanism, UsersAdmin

    ask(
        connection.settings(),
        UsersAdmin,
        lambda admin: admin.delete_password(user, mechanism=ScramMechanism.of(mechanism)),
    )
    output.result(f"{user} can no longer log in by {mechanism}", {"user": user, "mechanism": mechanism})
