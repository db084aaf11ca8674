"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.admin.results import Results
from penstock.client.admin.users import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion
from penstock.client.admin.wire.common import check, value_or_error
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)


def describe_request(users: Sequence[str] | None) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(
        users=None if users is None else [UserName(name=user) for user in users]
    )


def read_described(response: DescribeUserScramCredentialsResponse) -> Results[str, list[ScramCredential]]:
    check(response.error_code, response.error_message)
    return {
        result.user: value_or_error(
            result.error_code,
            result.error_message,
            result.user,
            [
                ScramCredential(mechanism=ScramMechanism(each.mechanism), iterations=each.iterations)
                for each in result.credential_infos
            ],
        )
        for result in response.results
    }


def alter_request(changes: Sequence[ScramUpsertion | ScramDeletion]) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
            for change in changes
            if isinstance(change, ScramDeletion)
        ],
        upsertions=[
            ScramCredentialUpsertion(
                name=change.user,
                mechanism=change.mechanism,
                iterations=change.iterations,
                salt=change.salt,
                salted_password=change.salted_password(),
            )
            for change in changes
            if isinstance(change, ScramUpsertion)
        ],
    )


def read_altered(response: AlterUserScramCredentialsResponse) -> Results[str, None]:
    return {
        result.user: value_or_error(result.error_code, result.error_message, result.user, None)
        for result in response.results
    }
