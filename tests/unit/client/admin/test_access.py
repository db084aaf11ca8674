"""Access control: ACLs, quotas, users and delegation tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from harness.admins import asked, run_admin
from harness.scripted_cluster import ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.admin.acls import Acl, AclFilter, AclPermission, AclResourceType, PatternType
from penstock.client.admin.aio import Admin
from penstock.client.admin.operations import AclOperation, operations_of
from penstock.client.admin.quotas import ANY, QuotaEntity, QuotaFilter
from penstock.client.admin.users import ScramDeletion, ScramMechanism, ScramUpsertion
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_client_quotas as alter_quotas
from penstock.protocol.messages import describe_client_quotas as describe_quotas
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from penstock.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from penstock.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from penstock.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

READ = Acl(
    resource_type=AclResourceType.TOPIC,
    resource_name="orders",
    principal="User:alice",
    operation=AclOperation.READ,
)
WRITE = Acl(
    resource_type=AclResourceType.TOPIC,
    resource_name="orders",
    principal="User:alice",
    operation=AclOperation.WRITE,
    permission=AclPermission.DENY,
)


def test_operations_are_bits() -> None:
    assert operations_of(1 << 3 | 1 << 8) == {AclOperation.READ, AclOperation.DESCRIBE}
    assert operations_of(0) == frozenset()
    assert operations_of(-(2**31)) is None


def test_each_acl_is_created_separately() -> None:
    world = ScriptedCluster()
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="no authorizer")
    world.answer(
        CreateAclsRequest, lambda request, node: CreateAclsResponse(results=[AclCreationResult(), refused])
    )

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.create_acls([READ, WRITE])
        assert list(failed.value.results) == [READ]
        assert isinstance(failed.value.failures[WRITE], errors.SecurityDisabled)
        assert "User:alice DENY WRITE on TOPIC orders from *" in str(failed.value)

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, CreateAclsRequest)]
    assert [(each.operation, each.permission_type) for each in request.creations] == [(3, 3), (4, 2)]


def test_an_empty_filter_matches_everything() -> None:
    world = ScriptedCluster()
    world.answer(
        DescribeAclsRequest,
        lambda request, node: DescribeAclsResponse(
            resources=[
                DescribeAclsResource(
                    resource_type=2,
                    resource_name="orders",
                    pattern_type=3,
                    acls=[
                        AclDescription(principal="User:alice", host="*", operation=4, permission_type=2),
                        AclDescription(principal="User:alice", host="*", operation=3, permission_type=3),
                        AclDescription(principal="User:alice", host="*", operation=99, permission_type=3),
                    ],
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        found = await admin.describe_acls()
        assert found[1:] == [READ, WRITE]
        assert found[0].operation is AclOperation.UNKNOWN

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, DescribeAclsRequest)]
    assert (request.resource_type_filter, request.pattern_type_filter, request.operation) == (1, 1, 1)
    assert request.principal_filter is None


def test_acls_are_deleted_by_filters_that_return_their_matches() -> None:
    world = ScriptedCluster()
    match = DeleteAclsMatchingAcl(
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    world.answer(
        DeleteAclsRequest,
        lambda request, node: DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(matching_acls=[match]),
                DeleteAclsFilterResult(matching_acls=[]),
            ]
        ),
    )
    everything = AclFilter(resource_name="other", pattern=PatternType.MATCH)

    async def test(admin: Admin) -> None:
        assert await admin.delete_acls([READ, everything]) == {
            AclFilter.exactly(READ): [READ],
            everything: [],
        }

    run_admin(world, test)


ALICE = QuotaEntity.of(user="alice")


def test_a_quota_entity_is_equal_whatever_the_order_of_its_parts() -> None:
    assert QuotaEntity.of(user="alice", client_id=None) == QuotaEntity.of(client_id=None, user="alice")
    assert str(QuotaEntity.of(user="alice", client_id=None)) == "user alice, client-id <default>"
    with pytest.raises(errors.BadArgument, match="not group"):
        QuotaEntity.of(group="g")
    with pytest.raises(errors.BadArgument, match="not nothing"):
        QuotaEntity.of()


def test_quotas_are_described_by_entity() -> None:
    world = ScriptedCluster()
    world.answer(
        describe_quotas.DescribeClientQuotasRequest,
        lambda request, node: describe_quotas.DescribeClientQuotasResponse(
            entries=[
                describe_quotas.EntryData(
                    entity=[
                        describe_quotas.EntityData(entity_type="client-id", entity_name=None),
                        describe_quotas.EntityData(entity_type="user", entity_name="alice"),
                    ],
                    values=[describe_quotas.ValueData(key="producer_byte_rate", value=5.0)],
                )
            ]
        ),
    )
    matching = QuotaFilter(parts={"user": "alice", "client-id": None, "ip": ANY}, strict=True)

    async def test(admin: Admin) -> None:
        assert await admin.describe_quotas(matching) == {
            QuotaEntity.of(user="alice", client_id=None): {"producer_byte_rate": 5.0}
        }

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, describe_quotas.DescribeClientQuotasRequest)]
    assert [(each.entity_type, each.match_type, each.match) for each in request.components] == [
        ("user", 0, "alice"),
        ("client-id", 1, None),
        ("ip", 2, None),
    ]
    assert request.strict


def test_quotas_are_set_and_removed() -> None:
    world = ScriptedCluster()

    def script(
        request: alter_quotas.AlterClientQuotasRequest, node: ScriptedNode
    ) -> alter_quotas.AlterClientQuotasResponse:
        return alter_quotas.AlterClientQuotasResponse(
            entries=[
                alter_quotas.AlterClientQuotasResponseEntry(
                    entity=each.entity, error_code=ErrorCode.INVALID_REQUEST, error_message="no such quota"
                )
                for each in request.entries
            ]
        )

    world.answer(alter_quotas.AlterClientQuotasRequest, script)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.InvalidRequest, match="user alice: no such quota"):
            await admin.alter_quota(ALICE, {"producer_byte_rate": 5}, unset=["consumer_byte_rate"])

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, alter_quotas.AlterClientQuotasRequest)]
    assert [(each.key, each.value, each.remove) for each in request.entries[0].ops] == [
        ("producer_byte_rate", 5.0, False),
        ("consumer_byte_rate", 0.0, True),
    ]


def test_a_password_is_salted_and_hashed_for_scram() -> None:
    # The exchange of RFC 7677: the salted password gives the proof in the RFC.
    salt, nonce = "W22ZaJ0SNY7soEsUEjb6gQ==", "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s={salt},i=4096,c=biws,r={nonce}".encode()
    change = ScramUpsertion(user="user", password="pencil", iterations=4096, salt=base64.b64decode(salt))

    client_key = hmac.digest(change.salted_password(), b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), exchange, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))

    assert base64.b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert "pencil" not in repr(change)
    longer = ScramUpsertion(user="user", password=b"pencil", mechanism=ScramMechanism.SHA_512)
    assert len(longer.salted_password()) == 64


def test_mechanisms_have_the_names_of_settings() -> None:
    assert ScramMechanism.of("scram-sha-512") is ScramMechanism.SHA_512
    assert ScramMechanism.SHA_256.spelled == "SCRAM-SHA-256"
    with pytest.raises(errors.BadArgument, match="PLAIN is not one of SCRAM-SHA-256, SCRAM-SHA-512"):
        ScramMechanism.of("PLAIN")


def test_passwords_never_leave_the_process() -> None:
    world = ScriptedCluster()
    world.answer(
        AlterUserScramCredentialsRequest,
        lambda request, node: AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user="alice"),
                AlterUserScramCredentialsResult(
                    user="bob", error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message="has none"
                ),
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.alter_users(
                [ScramUpsertion(user="alice", password="secret"), ScramDeletion(user="bob")]
            )
        assert list(failed.value.failures) == ["bob"]
        with pytest.raises(errors.BadArgument, match="a name and a password"):
            await admin.set_password("alice", "")

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, AlterUserScramCredentialsRequest)]
    assert b"secret" not in request.upsertions[0].salted_password + request.upsertions[0].salt
    assert [each.name for each in request.deletions] == ["bob"]


def test_users_are_described_with_their_mechanisms() -> None:
    world = ScriptedCluster()
    world.answer(
        DescribeUserScramCredentialsRequest,
        lambda request, node: DescribeUserScramCredentialsResponse(
            results=[
                DescribeUserScramCredentialsResult(
                    user="alice", credential_infos=[CredentialInfo(mechanism=2, iterations=4096)]
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        found = await admin.describe_users()
        assert [(each.mechanism, each.iterations) for each in found["alice"]] == [
            (ScramMechanism.SHA_512, 4096)
        ]

    run_admin(world, test)


def test_tokens_are_created_renewed_expired_and_described() -> None:
    world = ScriptedCluster()
    world.answer(
        CreateDelegationTokenRequest,
        lambda request, node: CreateDelegationTokenResponse(
            principal_type="User",
            principal_name="alice",
            token_requester_principal_type="User",
            token_requester_principal_name="bob",
            issue_timestamp_ms=1,
            expiry_timestamp_ms=2,
            max_timestamp_ms=3,
            token_id="t",
            hmac=b"secret",
        ),
    )
    world.answer(
        RenewDelegationTokenRequest, lambda request, node: RenewDelegationTokenResponse(expiry_timestamp_ms=8)
    )
    world.answer(
        ExpireDelegationTokenRequest,
        lambda request, node: ExpireDelegationTokenResponse(
            expiry_timestamp_ms=0, error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        ),
    )
    world.answer(
        DescribeDelegationTokenRequest,
        lambda request, node: DescribeDelegationTokenResponse(
            tokens=[
                DescribedDelegationToken(
                    principal_type="User",
                    principal_name="alice",
                    issue_timestamp=1,
                    expiry_timestamp=2,
                    max_timestamp=3,
                    token_id="t",
                    hmac=b"secret",
                    renewers=[],
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        token = await admin.create_token(owner="User:alice", renewers=["User:bob"])
        assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:bob", ("User:bob",))
        assert "secret" not in repr(token)
        assert await admin.renew_token(token.hmac) == 8
        with pytest.raises(errors.DelegationTokenNotFound):
            await admin.expire_token(token.hmac)
        assert [each.token_id for each in await admin.describe_tokens(owners=["User:alice"])] == ["t"]
        with pytest.raises(errors.BadArgument, match="write it as User:name"):
            await admin.describe_tokens(owners=["alice"])

    run_admin(world, test)
