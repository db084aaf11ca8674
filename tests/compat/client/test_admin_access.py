"""What only Apache Kafka serves so far, through Admin and the commands: ACLs, quotas, users, tokens, reassignments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import KafkaBroker, free_port
from harness.waiting import wait_until
from penstock import Admin, TopicPartition, errors
from penstock.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    QuotaEntity,
    QuotaFilter,
    ScramMechanism,
)
from penstock.cli.main import main

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "delegation.token.secret.key": "secret",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.login.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
LOGIN_PORT = "test.login.port"  # Kafka does not know it, and ignores it

Run = Callable[..., str]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """A broker with ACLs and a second listener for users with a password."""
    libs = request.config.getoption("--kafka-libs")
    broker = KafkaBroker(tmp_path_factory.mktemp("access"), settings=SETTINGS, libs=libs)
    listeners = {"PLAINTEXT": broker.port, "LOGIN": free_port(), "CONTROLLER": broker.controller_port}
    broker.settings |= {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        LOGIN_PORT: str(listeners["LOGIN"]),
    }
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def admin(kafka: KafkaBroker) -> Iterator[Admin]:
    with Admin(kafka.bootstrap) as admin:
        yield admin


@pytest.fixture
def run(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; its output."""
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", kafka.bootstrap)

    def run(line: str, *, status: int = 0) -> str:
        capsys.readouterr()
        ended = main(shlex.split(line))
        out, err = capsys.readouterr()
        assert ended == status, out + err
        return out if status == 0 else err

    return run


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def soon(read: Callable[[], Any], expected: Any) -> None:
    """The broker applies a change a moment after the controller has made it."""
    wait_until(lambda: read() == expected, f"{expected!r}")


def test_acls_are_created_described_and_deleted(admin: Admin) -> None:
    topic = new_name("topic")
    read = Acl(
        resource_type=AclResourceType.TOPIC,
        resource_name=topic,
        principal="User:alice",
        operation=AclOperation.READ,
    )
    deny = Acl(
        resource_type=AclResourceType.TOPIC,
        resource_name=topic,
        principal="User:eve",
        host="10.0.0.9",
        operation=AclOperation.ALL,
        permission=AclPermission.DENY,
    )
    of_topic = AclFilter(resource_name=topic)

    admin.create_acls([read, deny])
    soon(lambda: admin.describe_acls(of_topic), [read, deny])
    assert admin.describe_acls(AclFilter(principal="User:alice", resource_name=topic)) == [read]
    assert admin.delete_acls([read]) == {AclFilter.exactly(read): [read]}
    soon(lambda: admin.describe_acls(of_topic), [deny])
    with pytest.raises(errors.BrokerError):
        admin.create_acl(Acl(**{**_fields(read), "resource_name": ""}))


def _fields(acl: Acl) -> dict[str, Any]:
    return {name: getattr(acl, name) for name in acl.__slots__}


def test_quotas_are_set_described_and_removed(admin: Admin) -> None:
    alice = QuotaEntity.of(user=new_name("alice"))
    everyone = QuotaEntity.of(user=None)

    admin.alter_quotas({alice: {"producer_byte_rate": 1024}, everyone: {"request_percentage": 50}})
    matching = QuotaFilter(parts=dict(alice.parts), strict=True)
    soon(lambda: admin.describe_quotas(matching), {alice: {"producer_byte_rate": 1024.0}})
    assert admin.describe_quotas()[everyone] == {"request_percentage": 50.0}
    admin.alter_quotas({alice: {"producer_byte_rate": None}, everyone: {"request_percentage": None}})
    soon(lambda: admin.describe_quotas(matching), {})
    with pytest.raises(errors.InvalidRequest, match=dict(alice.parts)["user"]):
        admin.alter_quota(alice, {"no_such_quota": 1})


def test_users_get_passwords_and_lose_them(admin: Admin) -> None:
    user = new_name("user")

    admin.set_password(user, "secret", mechanism=ScramMechanism.SHA_512)
    soon(
        lambda: [(each.mechanism, each.iterations) for each in admin.describe_users().get(user, [])],
        [(ScramMechanism.SHA_512, 8192)],
    )
    admin.delete_password(user, mechanism=ScramMechanism.SHA_512)
    soon(lambda: admin.describe_users().get(user), None)
    with pytest.raises(errors.ResourceNotFound, match=user):
        admin.delete_password(user)


def test_a_user_logs_in_with_the_new_password_and_creates_tokens(admin: Admin, kafka: KafkaBroker) -> None:
    user, password = new_name("user"), "pass,word"
    admin.set_password(user, password)
    soon(lambda: user in admin.describe_users(), True)

    with Admin(
        f"127.0.0.1:{kafka.settings[LOGIN_PORT]}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=(
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{user}" password="{password}";'
        ),
    ) as own:
        token = own.create_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        assert (token.owner, token.renewers) == (f"User:{user}", ("User:bob",))
        assert token.issued_ms < token.expires_ms <= token.max_ms
        soon(lambda: [each.token_id for each in own.describe_tokens()], [token.token_id])
        assert own.renew_token(token.hmac) <= token.max_ms
        own.expire_token(token.hmac)
        soon(own.describe_tokens, [])
        with pytest.raises(errors.DelegationTokenNotFound):
            own.renew_token(b"no such token")
    with pytest.raises(errors.BrokerError) as refused:
        admin.create_token()  # an unauthenticated client is ANONYMOUS, which gets no token
    assert refused.value.code is not None
    assert "DELEGATION_TOKEN" in refused.value.code.name


def test_the_start_offsets_of_a_share_group_are_set_and_described(admin: Admin) -> None:
    topic, group = new_name("topic"), new_name("share")
    admin.create_topic(topic)
    where = TopicPartition(topic, 0)

    wait_until(lambda: _has_set(admin, group, where), "the share coordinator took it")

    offsets = admin.list_share_group_offsets(group)
    assert offsets[where].start_offset == 0
    described = admin.describe_group(group)
    assert (described.type, described.members) == ("Share", ())
    assert [lag.partition for lag in admin.group_lag(group)] == [where]
    assert admin.delete_share_group_offsets(group, [topic]) == {topic: None}
    admin.delete_group(group)


def _has_set(admin: Admin, group: str, where: TopicPartition) -> bool:
    try:
        admin.alter_share_group_offsets(group, {where: 0})
    except errors.PenstockError:  # its topic may not exist yet
        return False
    return True


def test_acl_commands_print_tables_and_json(run: Run) -> None:
    topic = new_name("topic")

    added = run(f"acls add --allow User:alice --operation read --operation write --topic {topic}")
    soon(lambda: len(json.loads(run(f"acls list --topic {topic} --json"))), 2)
    listed = json.loads(run(f"acls list --topic {topic} --principal User:alice --json"))
    removed = run(f"acls remove --allow User:alice --operation read --topic {topic}")

    assert rows(added)[0] == ["resource", "name", "pattern", "principal", "host", "operation", "permission"]
    assert rows(added)[1] == ["topic", topic, "literal", "User:alice", "*", "read", "allow"]
    assert [each["operation"] for each in listed] == ["read", "write"]
    assert rows(removed)[1:] == [["topic", topic, "literal", "User:alice", "*", "read", "allow"]]
    run(f"acls remove --topic {topic}")


def test_quota_commands_print_tables_and_json(run: Run) -> None:
    user = new_name("user")

    done = run(f"quotas set --user {user} --client-id-default producer_byte_rate=1024")
    expected = {
        "user": user,
        "client_id": "<default>",
        "ip": None,
        "quota": "producer_byte_rate",
        "value": 1024.0,
    }
    wait_until(lambda: expected in json.loads(run("quotas list --json")), "the quota is listed")
    table = run("quotas list")
    removed = json.loads(run(f"quotas unset --user {user} --client-id-default producer_byte_rate --json"))

    assert done == f"set producer_byte_rate=1024 for user {user}, client-id <default>\n"
    assert [user, "<default>", "-", "producer_byte_rate", "1024"] in rows(table)
    assert removed["removed"] == ["producer_byte_rate"]


def test_user_commands_print_tables_and_json(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    user = new_name("user")
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))

    done = run(f"users set-password {user}")
    wait_until(lambda: user in run("users list --json"), "the user is listed")
    table = run("users list")
    deleted = json.loads(run(f"users delete-password {user} --json"))
    nothing = run(f"users set-password {user}", status=1)

    assert done == f"{user} can log in with SCRAM-SHA-256\n"
    assert [user, "SCRAM-SHA-256", "8192"] in rows(table)
    assert deleted == {"user": user, "mechanism": "SCRAM-SHA-256"}
    assert "the password is empty" in nothing


def test_reassignment_and_election_commands_print_tables_and_json(
    run: Run, admin: Admin, tmp_path: Path
) -> None:
    topic = new_name("topic")
    admin.create_topic(topic)
    plan = tmp_path / "plan.json"
    wait_until(lambda: topic in run("topics list"), "the topic is listed")
    plan.write_text(run(f"reassign propose {topic} --brokers 1"))

    started = run(f"reassign start {plan} --throttle 1000000")
    status = json.loads(run(f"reassign status {plan} --json"))
    elected = json.loads(run(f"leaders elect {topic}:0 --json"))

    assert rows(started)[1:] == [[topic, "0", "1"]]
    assert status == [
        {
            "topic": topic,
            "partition": 0,
            "is_moving": False,
            "is_done": True,
            "replicas": [1],
            "target": [1],
        }
    ]
    assert json.loads(run("reassign list --json")) == []
    assert json.loads(run(f"reassign cancel {plan} --json")) == []
    assert elected == []
    assert "no broker" in run(f"reassign propose {topic} --brokers 9", status=1)
    assert run("cluster unregister 9", status=1).startswith("penstock: broker 9: ")
