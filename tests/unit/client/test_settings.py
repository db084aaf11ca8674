"""Settings of a client: where they may be given, their values, and errors."""

from __future__ import annotations

import contextlib
import math
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client.errors import BadConfiguration
from penstock.client.security.jaas import parse_login
from penstock.client.security.tls import make_context
from penstock.client.settings import AdminSettings, ConsumerSettings, ProducerSettings
from penstock.config.values import Secret


class TestWhereASettingMayStand:
    def test_the_defaults_are_kafkas_with_a_local_broker(self) -> None:
        settings = ProducerSettings.of()

        assert settings.get("bootstrap.servers") == ("localhost:9092",)
        assert settings.get("linger.ms") == 5
        assert settings.acks == -1
        assert settings.get("enable.idempotence") is True
        assert not settings.is_set("linger.ms")

    def test_addresses_may_come_first_as_text_or_list(self) -> None:
        assert ProducerSettings.of("a:1,b:2").get("bootstrap.servers") == ("a:1", "b:2")
        assert AdminSettings.of(["a:1", "b:2"]).get("bootstrap.servers") == ("a:1", "b:2")

    def test_a_mapping_of_all_settings_may_come_first(self) -> None:
        settings = ProducerSettings.of({"bootstrap.servers": "a:1", "linger.ms": 7})

        assert settings.get("bootstrap.servers") == ("a:1",)
        assert settings.get("linger.ms") == 7
        assert settings.is_set("linger.ms")

    def test_dots_in_a_mapping_and_underscores_in_keywords_mean_the_same(self) -> None:
        assert ProducerSettings.of(None, {"linger.ms": 7}).get("linger.ms") == 7
        assert ProducerSettings.of(None, None, {"linger_ms": 7}).get("linger.ms") == 7
        assert ProducerSettings.of({"linger_ms": 7}).get("linger.ms") == 7

    @pytest.mark.parametrize(
        "say_twice",
        [
            lambda: ProducerSettings.of({"linger.ms": 1}, None, {"linger_ms": 1}),
            lambda: ProducerSettings.of(None, {"linger.ms": 1}, {"linger_ms": 1}),
            lambda: ProducerSettings.of("a:1", {"bootstrap.servers": "a:1"}),
            lambda: ConsumerSettings.of(None, None, {"group": "a", "group_id": "a"}),
        ],
    )
    def test_a_setting_given_twice_is_rejected(self, say_twice: Callable[[], Any]) -> None:
        with pytest.raises(BadConfiguration, match="set twice"):
            say_twice()

    def test_short_keywords_mean_longer_ones(self) -> None:
        assert ProducerSettings.of(None, None, {"serializer": "json"}).get("value.serializer") == "json"
        consumer = ConsumerSettings.of(None, None, {"deserializer": "json", "group": "billing"})
        assert (consumer.get("value.deserializer"), consumer.get("group.id")) == ("json", "billing")

    def test_none_counts_as_not_set(self) -> None:
        settings = ConsumerSettings.of(None, None, {"group": None, "max_poll_records": None})

        assert not settings.is_set("group.id")
        assert settings.get("max.poll.records") == 500


class TestValues:
    @pytest.mark.parametrize(
        ("name", "given", "expected"),
        [
            ("linger.ms", "7", 7),
            ("linger.ms", " 7 ", 7),
            ("enable.idempotence", "TRUE", True),
            ("enable.idempotence", True, True),
            ("acks", "-1", "-1"),
            ("acks", -1, "-1"),
            ("acks", "all", "all"),
            ("sasl.login.refresh.window.factor", 1, 1.0),
            ("ssl.key.password", "secret", Secret("secret")),
            ("ssl.key.password", Secret("secret"), Secret("secret")),
            ("ssl.cipher.suites", ["a", "b"], ("a", "b")),
            ("security.protocol", "sasl_ssl", "SASL_SSL"),
            ("metadata.recovery.strategy", "NONE", "none"),
            ("key.serializer", "org.apache.kafka.common.serialization.LongSerializer", "int64"),
            ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner", "round-robin"),
            ("interceptor.classes", "a.B, c.D", ("a.B", "c.D")),
        ],
    )
    def test_a_value_may_be_a_python_value_or_text(self, name: str, given: object, expected: object) -> None:
        assert ProducerSettings.of(None, {name: given}).get(name) == expected

    def test_an_object_is_kept(self) -> None:
        interceptor, partitioner = object(), object()

        settings = ProducerSettings.of(
            None, None, {"interceptor_classes": [interceptor], "partitioner_class": partitioner}
        )

        assert settings.get("interceptor.classes") == (interceptor,)
        assert settings.get("partitioner.class") is partitioner

    def test_assignors_are_known_by_their_java_classes(self) -> None:
        java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"

        settings = ConsumerSettings.of(
            None, None, {"group": "g", "partition_assignment_strategy": [java, "range"]}
        )

        assert settings.get("partition.assignment.strategy") == ("cooperative-sticky", "range")
        assert ConsumerSettings.of().get("partition.assignment.strategy") == ("range", "cooperative-sticky")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"linger_ms": 1.5}, "linger.ms: must be a 64-bit integer, not 1.5 of type float"),
            ({"linger_ms": True}, "linger.ms: must be a 64-bit integer, not True of type bool"),
            ({"linger_ms": "soon"}, "linger.ms=soon: must be a 64-bit integer, at least 0"),
            ({"linger_ms": -1}, "linger.ms=-1: must be a 64-bit integer, at least 0"),
            (
                {"batch_size": 2**31},
                "batch.size: must be a 32-bit integer, not 2147483648 of type int",
            ),
            ({"enable_idempotence": 1}, "enable.idempotence: must be true or false, not 1 of type int"),
            ({"compression_type": "zip"}, "compression.type=zip: must be a string, one of none, gzip"),
            ({"client_id": 5}, "client.id: must be a string, not 5 of type int"),
            ({"bootstrap_servers": [9092]}, "must be a list of strings, not"),
            ({"interceptor_classes": print}, "interceptor.classes: must be a list, not"),
            ({"acks": 2}, "acks=2: must be a string, one of all, -1, 0, 1"),
            ({"transactional_id": ""}, "transactional.id=: must be a string, not empty"),
        ],
    )
    def test_an_invalid_value_is_rejected_with_the_allowed_ones(
        self, options: dict[str, object], message: str
    ) -> None:
        with pytest.raises(BadConfiguration) as refusal:
            ProducerSettings.of(None, None, options)

        assert message in str(refusal.value)

    def test_a_rejected_secret_is_not_shown(self) -> None:
        with pytest.raises(BadConfiguration) as refusal:
            ProducerSettings.of(None, None, {"ssl_key_password": 4711})

        assert "4711" not in str(refusal.value)

    def test_a_secret_is_hidden_wherever_settings_are_shown(self) -> None:
        settings = ProducerSettings.of(None, None, {"ssl_key_password": "hunter2", "linger_ms": 1})

        assert "hunter2" not in repr(settings)
        assert "linger.ms=1" in repr(settings)


class TestNames:
    @pytest.mark.parametrize(
        ("take", "message"),
        [
            (lambda: ProducerSettings.of({"lingr.ms": 1}), "did you mean linger.ms?"),
            (lambda: ProducerSettings.of(None, None, {"linger": 1}), "did you mean linger_ms?"),
            (lambda: ConsumerSettings.of(None, None, {"grup": 1}), "did you mean group?"),
            (
                lambda: ProducerSettings.of(None, None, {"group_id": "g"}),
                "is a setting of a consumer, not of a producer",
            ),
            (lambda: ProducerSettings.of({"queue.buffering.max.ms": 5}), "called linger.ms here"),
            (lambda: ProducerSettings.of(None, None, {"max_batch_size": 5}), "called batch_size here"),
            (lambda: ConsumerSettings.of(None, None, {"consumer_timeout_ms": 5}), "poll(timeout=...)"),
            (lambda: ConsumerSettings.of({"enable.auto.offset.store": False}), "enable.auto.commit=false"),
            (lambda: AdminSettings.of(None, {"xyz": 1}), "`penstock settings` lists all"),
            (lambda: AdminSettings.of(None, {5: 1}), "the name of a setting is a string"),  # type: ignore[dict-item]
        ],
    )
    def test_an_unknown_name_is_rejected_with_the_closest_match(
        self, take: Callable[[], Any], message: str
    ) -> None:
        with pytest.raises(BadConfiguration) as refusal:
            take()

        assert message in str(refusal.value)

    @pytest.mark.parametrize(
        ("servers", "message"),
        [
            ("localhost", "the port is missing"),
            ("localhost:99999", "a port is a number"),
            ("", "at least one item"),
            (5, "must be addresses (host:port) or a mapping of settings"),
            ([5], "must be a list of strings"),
        ],
    )
    def test_addresses_are_checked_before_connecting(self, servers: Any, message: str) -> None:
        with pytest.raises(BadConfiguration) as refusal:
            ProducerSettings.of(servers)

        assert message in str(refusal.value)


class TestWhatFollows:
    def test_acks_turn_idempotence_off(self) -> None:
        settings = ProducerSettings.of(None, None, {"acks": 1})

        assert settings.acks == 1
        assert settings.get("enable.idempotence") is False

    def test_a_consumer_without_a_group_reads_from_the_start_and_commits_nothing(self) -> None:
        alone, in_group = ConsumerSettings.of(), ConsumerSettings.of(None, None, {"group": "billing"})

        assert (alone.get("auto.offset.reset"), alone.get("enable.auto.commit")) == ("earliest", False)
        assert (in_group.get("auto.offset.reset"), in_group.get("enable.auto.commit")) == ("latest", True)

    def test_an_explicit_reset_policy_holds_without_a_group(self) -> None:
        settings = ConsumerSettings.of(None, None, {"auto_offset_reset": "latest"})

        assert settings.get("auto.offset.reset") == "latest"

    def test_delivery_timeout_allows_one_request(self) -> None:
        assert ProducerSettings.of({"request.timeout.ms": 200_000}).get("delivery.timeout.ms") == 200_005
        with pytest.raises(
            BadConfiguration, match=r"at least linger\.ms \+ request\.timeout\.ms, which is 30005"
        ):
            ProducerSettings.of({"delivery.timeout.ms": 1000})

    def test_an_admin_call_has_time_for_one_request(self) -> None:
        assert AdminSettings.of({"request.timeout.ms": 70_000}).get("default.api.timeout.ms") == 70_000
        with pytest.raises(BadConfiguration, match=r"at least request\.timeout\.ms=30000"):
            AdminSettings.of({"default.api.timeout.ms": 1})

    def test_controllers_are_used_instead_of_brokers(self) -> None:
        with pytest.raises(BadConfiguration, match="not both"):
            AdminSettings.of("a:1", {"bootstrap.controllers": "b:1"})

    @pytest.mark.parametrize(
        "name", ["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"]
    )
    def test_the_consumer_protocol_rejects_classic_settings(self, name: str) -> None:
        value = "range" if "strategy" in name else "1000"
        with pytest.raises(BadConfiguration, match=r"only with group\.protocol=classic"):
            ConsumerSettings.of({"group.id": "g", "group.protocol": "consumer", name: value})

    def test_a_client_has_a_client_id(self) -> None:
        assert ProducerSettings.of().client_id == "penstock-producer"
        assert ProducerSettings.of({"client.id": "shop"}).client_id == "shop"


class TestSecurity:
    def test_username_and_password_make_a_jaas_config(self) -> None:
        settings = AdminSettings.of(
            None,
            None,
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_username": "alice",
                "sasl_password": 'a "quoted\\ secret"',
            },
        )

        login = parse_login(settings.get("sasl.jaas.config").reveal())

        assert login == ("ScramLoginModule", {"username": "alice", "password": 'a "quoted\\ secret"'})
        assert "secret" not in repr(settings)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"sasl.username": "a"}, "must be set together with sasl.password"),
            ({"sasl.username": "a", "sasl.password": "b"}, "needs security.protocol=SASL_SSL"),
            (
                {"sasl.username": "a", "sasl.password": "b", "security.protocol": "SASL_SSL"},
                "needs a sasl.mechanism of PLAIN, SCRAM-SHA-256",
            ),
            ({"sasl.username": "a", "sasl.password": "b", "sasl.jaas.config": "x"}, "not both"),
            ({"security.protocol": "SASL_SSL", "sasl.mechanism": ""}, "must be set if"),
            ({"ssl.engine.factory.class": "com.example.Engines"}, "a Java class cannot be loaded here"),
        ],
    )
    def test_invalid_logins_are_rejected(self, given: dict[str, str], message: str) -> None:
        with pytest.raises(BadConfiguration) as refusal:
            AdminSettings.of(given)

        assert message in str(refusal.value)

    def test_an_ssl_context_is_used_unchanged(self) -> None:
        context = ssl.create_default_context()
        settings = ProducerSettings.of(None, None, {"ssl_engine_factory_class": context})

        assert make_context(settings) is context
        with pytest.raises(BadConfiguration, match=r"must be an ssl\.SSLContext"):
            make_context(ProducerSettings.of(None, None, {"ssl_engine_factory_class": object()}))


class TestFiles:
    def test_a_properties_file_is_read_with_overrides(self, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text(
            "bootstrap.servers=a:1\nclient.id = shop\n# comment\nlinger.ms=3\n"
            "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
        )

        settings = ProducerSettings.of_file(str(file), options={"client_id": "mine"})

        assert settings.get("bootstrap.servers") == ("a:1",)
        assert settings.get("key.serializer") == "string"
        assert settings.client_id == "mine"
        assert ProducerSettings.of(settings.originals).get("linger.ms") == 3

    def test_settings_of_other_clients_are_kept_apart(self, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text("group.id=billing\nmy.plugin.url=http://localhost:8081\nclient.id=x\n")

        settings = AdminSettings.of_file(str(file))

        assert settings.ignored == ("group.id", "my.plugin.url")
        assert settings.client_id == "x"

    def test_overrides_are_checked_together_with_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text("acks=1\n")

        with pytest.raises(BadConfiguration, match="needs idempotence"):
            ProducerSettings.of_file(str(file), settings={"transactional.id": "t"})

    def test_overrides_need_not_be_valid_without_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")

        settings = AdminSettings.of_file(str(file), options={"sasl_username": "a", "sasl_password": "b"})

        assert settings.get("sasl.jaas.config") is not None

    @pytest.mark.parametrize(
        ("text", "message"),
        [(None, "cannot be read"), ("linger.ms=x", "linger.ms=x: must be"), ("a=\\u12", "line 1")],
    )
    def test_an_invalid_file_is_named(self, tmp_path: Path, text: str | None, message: str) -> None:
        file = tmp_path / "client.properties"
        if text is not None:
            file.write_text(text)

        with pytest.raises(BadConfiguration) as refusal:
            ProducerSettings.of_file(str(file))

        assert str(refusal.value).startswith(str(file))
        assert message in str(refusal.value)


ODD: list[Any] = [
    object(),
    print,
    dict,
    [],
    [None],
    ["a", ["b"]],
    (),
    {},
    {"a": 1},
    b"bytes",
    "",
    " ",
    "\x00",
    "ü" * 80,
    "9" * 80,
    -1,
    0,
    10**400,
    -(10**30),
    1.5,
    math.nan,
    math.inf,
    True,
    1j,
    Secret("x"),
    range(3),
    {1, 2},
]


@pytest.mark.parametrize("settings", [ProducerSettings, ConsumerSettings, AdminSettings])
def test_any_value_is_accepted_or_rejected_with_a_message(settings: Any) -> None:
    for name in settings.table():
        for value in ODD:
            with contextlib.suppress(BadConfiguration):
                settings.of(None, {name: value})
