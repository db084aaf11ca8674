"""Users with SCRAM passwords. A password is salted and hashed here: it never leaves this process."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results, only

SALT_BYTES = 24
ITERATIONS = 8192
"""Twice the minimum of RFC 7677, as in Kafka's tools."""


class ScramMechanism(enum.IntEnum):
    """Numbers of the protocol."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def spelled(self) -> str:
        """The name in settings: `SCRAM-SHA-256`."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def hash_name(self) -> str:
        return self.name.replace("_", "").lower()

    @classmethod
    def of(cls, name: str) -> ScramMechanism:
        for mechanism in cls:
            if name.upper().removeprefix("SCRAM-") == mechanism.spelled.removeprefix("SCRAM-"):
                return mechanism
        raise errors.BadArgument(f"{name} is not one of {', '.join(each.spelled for each in cls)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """A SCRAM credential of a user, without the password."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A password to set for one mechanism."""

    user: str
    password: str | bytes = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SHA_256
    iterations: int = ITERATIONS
    salt: bytes = field(default_factory=lambda: os.urandom(SALT_BYTES), repr=False)

    def salted_password(self) -> bytes:
        import hashlib  # here, because few programs set passwords

        password = self.password.encode() if isinstance(self.password, str) else self.password
        return hashlib.pbkdf2_hmac(self.mechanism.hash_name, password, self.salt, self.iterations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """A password to delete for one mechanism."""

    user: str
    mechanism: ScramMechanism = ScramMechanism.SHA_256


class UsersAdmin(AdminCalls):
    async def describe_users(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, list[ScramCredential]]:
        """The mechanisms for which users have passwords: of the given users, or of all with any."""
        call = self._begin("describe users", timeout)
        request = wire.users.describe_request(None if users is None else list(users))

        async def attempt() -> Results[str, list[ScramCredential]]:
            return wire.users.read_described(await call.ask(request))

        return call.split(await call.retry(attempt))

    async def set_password(
        self,
        user: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SHA_256,
        iterations: int = ITERATIONS,
        timeout: float | None = None,
    ) -> None:
        """Set the password of a user for a mechanism."""
        change = ScramUpsertion(user=user, password=password, mechanism=mechanism, iterations=iterations)
        await only(self.alter_users([change], timeout=timeout))

    async def delete_password(
        self,
        user: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SHA_256,
        timeout: float | None = None,
    ) -> None:
        """Delete the password of a user for a mechanism."""
        await only(self.alter_users([ScramDeletion(user=user, mechanism=mechanism)], timeout=timeout))

    async def alter_users(
        self, changes: Sequence[ScramUpsertion | ScramDeletion], *, timeout: float | None = None
    ) -> dict[str, None]:
        """Set and delete passwords. The changes of one user are atomic."""
        call = self._begin("alter users", timeout)
        for change in changes:
            if isinstance(change, ScramUpsertion) and not (change.user and change.password):
                raise errors.BadArgument("a user needs a name and a password")

        async def attempt(users: list[str]) -> Results[str, None]:
            request = wire.users.alter_request([change for change in changes if change.user in users])
            return wire.users.read_altered(await call.ask_controller(request))

        return await call.run_each([change.user for change in changes], attempt)
