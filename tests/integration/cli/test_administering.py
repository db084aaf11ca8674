"""Commands that administer a cluster: their tables, their JSON, and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.admin import create_topic, new_name
from harness.brokers import PenstockBroker
from integration.cli.conftest import Commands, Done

Type = Callable[[bytes], None]

pytestmark = pytest.mark.penstock_only("tests Penstock's command line")


@pytest.fixture
def topic(node: PenstockBroker) -> str:
    return create_topic(node.bootstrap, "administered", partitions=2)


@pytest.fixture
def group(commands: Commands, topic: str) -> str:
    """A group that has committed the first offset of each partition, three records behind."""
    name = new_name("group")
    commands.run(f"produce {topic} a b c --partition 0")
    commands.run(f"groups reset-offsets {name} --topic {topic} --to-earliest --create --execute")
    return name


def columns(done: Done) -> list[str]:
    return done.rows()[0]


# -- topics


def test_a_topic_is_created_listed_described_grown_and_deleted(commands: Commands) -> None:
    name = new_name("topic")

    created = commands.run(f"topics create {name} --partitions 2 --set retention.ms=60000")
    listed = commands.run(f"topics list '{name[:-1]}*'")
    described = commands.run(f"topics describe {name}")
    grown = commands.run(f"topics alter {name} --partitions 3")
    deleted = commands.run(f"topics delete {name}")

    assert columns(created) == ["topic", "partitions", "replicas", "id"]
    assert created.rows()[1][:3] == [name, "2", "1"]
    assert listed.rows()[1][:2] == [name, "2"]
    assert described.rows()[1:] == [
        [name, "0", "1", "1", "1", "-", "0"],
        [name, "1", "1", "1", "1", "-", "0"],
    ]
    assert grown.out == f"{name} now has 3 partitions\n"
    assert deleted.out == f"deleted {name}\n"


def test_topics_are_printed_as_json(commands: Commands) -> None:
    name = new_name("topic")

    (created,) = commands.run(f"topics create {name} --json").json()
    listed = commands.run("topics list --internal --json").json()
    (described,) = commands.run(f"topics describe {name} --json").json()
    (grown,) = commands.run(f"topics alter {name} -p 2 --dry-run --json").json()
    (deleted,) = commands.run(f"topics delete {name} --json").json()

    assert (created["topic"], created["partitions"], len(created["id"])) == (name, 1, 22)
    assert {"topic": name, "partitions": 1, "id": created["id"], "internal": False} in listed
    assert described == {
        "topic": name,
        "partition": 0,
        "leader": 1,
        "replicas": [1],
        "in_sync": [1],
        "offline": [],
        "epoch": 0,
    }
    assert grown == {"topic": name, "partitions": 2, "is_done": False}
    assert deleted == {"topic": name}


def test_existing_and_missing_topics_can_be_ignored(commands: Commands, topic: str) -> None:
    new = new_name("topic")

    created = commands.run(f"topics create {topic} {new} --if-not-exists --json").json()
    deleted = commands.run(f"topics delete {new} {new}-not --if-exists --json").json()

    assert [each["topic"] for each in created] == [new]
    assert deleted == [{"topic": new}]


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("topics create {topic}", 1, "already exists; use it as it is, or choose another name"),
        ("topics create 'a b'", 1, "use up to 249 letters, digits, dots, dashes and underscores"),
        ("topics create x --set retentio.ms=1", 1, "did you mean retention.ms?"),
        ("topics create x --set retention.ms", 2, "--set retention.ms: must be key=value"),
        ("topics create x -c retention.ms", 2, "--set retention.ms: must be key=value"),
        ("topics create x --partitions 0", 2, "must be at least 1"),
        ("topics describe no-such-topic", 1, "`penstock topics list` lists all topics"),
        ("topics alter {topic} --partitions 1", 1, "the number of partitions can only be increased"),
        ("topics list -X request.timeout.m=5", 1, "did you mean request.timeout.ms?"),
        ("configs describe topic no-such-topic", 1, "no-such-topic"),
        ("configs alter topic {topic} --set retention.ms=never", 1, "retention.ms"),
        ("configs alter topic {topic}", 2, "nothing to change"),
        ("configs describe topic", 2, "name the topic"),
        ("configs describe broker one", 2, "is not a broker id"),
        ("groups describe no-such-group", 1, "`penstock groups list` lists all groups"),
        ("groups list --state asleep", 1, "asleep is not one of PreparingRebalance"),
        ("groups reset-offsets g --to-earliest", 2, "name the topics"),
        ("groups reset-offsets g --topic {topic}", 2, "give exactly one of --to-earliest"),
        ("groups reset-offsets g --topic {topic} --shift-by 1 --create", 1, "no current committed offset"),
        (
            "groups reset-offsets g --topic {topic} --to-time soon",
            2,
            "--to-time soon: must be a time such as",
        ),
        ("groups reset-offsets g --topic {topic} --to-time latest", 2, "use --to-latest"),
        ("groups delete no-such-group", 1, "the group does not exist"),
        ("offsets get {topic} --time soon", 2, "--time soon: must be one of latest, earliest"),
        ("offsets get no-such-topic", 1, "no-such-topic"),
        ("offsets delete-records {topic}", 2, "must be topic:partition=offset"),
        ("offsets delete-records {topic}:0=99", 1, "{topic}-0"),
        ("transactions describe no-such-id", 1, "`penstock transactions list` lists all transactional ids"),
        ("transactions abort {topic}:0 --start-offset 5", 1, "Could not find any open transactions"),
        ("transactions producers {topic}", 2, "write it as topic:0"),
        ("features upgrade metadata.version=high", 2, "a level is a number"),
        ("features upgrade metadata.version=999", 1, "metadata.version"),
        ("quorum add-voter 4 AAAAAAAAAAAAAAAAAAAAAQ --endpoint here", 2, "must be NAME://HOST:PORT"),
        ("log-dirs move {topic}:0", 2, "must be topic:partition@broker=directory"),
        ("log-dirs move {topic}:0@1=/no/such", 1, "{topic}-0 on broker 1"),
        ("reassign start no-such-plan.json", 1, "no-such-plan.json: No such file or directory"),
        ("reassign propose {topic} --brokers 1,x", 2, "must be broker ids"),
        ("reassign propose {topic} --brokers 1,7", 1, "the cluster has no broker 7"),
        ("acls add --topic {topic}", 2, "name a principal"),
        ("acls add --allow alice --topic {topic}", 2, "write it as User:alice"),
        ("acls add --allow User:a", 2, "name the resources"),
        ("acls add --allow User:a --topic x --operation fly", 2, "--operation fly: must be one of all, read"),
        ("quotas set producer_byte_rate=1", 2, "name the entity"),
        ("quotas set --user a producer_byte_rate=much", 2, "a quota must be a number"),
        ("quotas set --user a --user-default x=1", 2, "--user cannot be combined with --user-default"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence_with_what_to_do(
    commands: Commands, topic: str, line: str, status: int, message: str
) -> None:
    done = commands.run(line.format(topic=topic), status=status)

    assert message.format(topic=topic) in done.err
    assert done.err.startswith("penstock: ")
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.parametrize("line", ["acls list", "quotas list", "users list"])
def test_apis_that_this_broker_does_not_serve_are_reported(commands: Commands, line: str) -> None:
    done = commands.run(line, status=1)

    assert " does not serve " in done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cluster unregister 4", "Broker 4 is not registered. [BROKER_ID_NOT_REGISTERED]"),
        ("quorum remove-voter 4 AAAAAAAAAAAAAAAAAAAAAQ", "is not a voter; see `penstock quorum replicas`"),
    ],
)
def test_nodes_that_do_not_exist_are_reported(commands: Commands, line: str, message: str) -> None:
    assert message in commands.run(line, status=1).err


def test_a_cluster_of_one_has_nothing_to_reassign_and_nothing_to_elect(commands: Commands) -> None:
    assert "No partition" in commands.run("leaders elect").err
    commands.run("reassign list")


def test_several_failures_are_on_separate_lines(commands: Commands) -> None:
    done = commands.run("topics delete no-such-a no-such-b", status=1)

    head, first, second = done.err.splitlines()
    assert head == "penstock: could not delete topics: 2 of 2 failed:"
    assert first.startswith("  no-such-a: ")
    assert second.startswith("  no-such-b: ")


def test_an_unreachable_broker_is_named(commands: Commands) -> None:
    done = commands.run("topics list --bootstrap-server 127.0.0.1:1", status=1)

    assert "no broker answers: 127.0.0.1:1: connection refused" in done.err
    assert "`penstock serve`" in done.err


# -- configs


def test_settings_are_altered_and_described(commands: Commands, topic: str) -> None:
    altered = commands.run(
        f"configs alter topic {topic} --set retention.ms=60000 --append cleanup.policy=compact"
    )
    output = commands.run(f"configs describe topic {topic}")
    asked = commands.run(f"configs describe topic {topic} retention --docs --json").json()
    commands.run(f"configs alter topic {topic} --unset retention.ms --subtract cleanup.policy=compact --json")
    left = commands.run(f"configs describe topic {topic} retention.ms --json").json()

    assert altered.out == f"altered: configs of topic {topic}\n"
    assert columns(output)[:3] == ["setting", "value", "source"]
    assert ["retention.ms", "60000", "topic", "no"] in output.rows()
    assert [each["setting"] for each in asked] == ["retention.bytes", "retention.ms"]
    assert (asked[1]["value"], asked[1]["source"]) == ("60000", "topic")
    assert asked[1]["documentation"]
    assert left[0]["source"] == "default"


def test_settings_of_brokers_groups_and_loggers_are_described(commands: Commands) -> None:
    commands.run("configs alter brokers --set message.max.bytes=2000000")
    commands.run("configs alter group g --set consumer.session.timeout.ms=46000")

    brokers = commands.run("configs describe brokers --json").json()
    broker = commands.run("configs describe broker 1 --all --json").json()
    group = commands.run("configs describe group g --json").json()
    loggers = commands.run("configs describe broker-logger 1 --json").json()
    listed = commands.run("configs list --json").json()

    assert ("message.max.bytes", "2000000") in [(each["setting"], each["value"]) for each in brokers]
    assert len(broker) > 200
    assert group[0]["value"] == "46000"
    assert loggers
    assert {"kind": "group", "name": "g"} in listed
    commands.run("configs alter brokers --unset message.max.bytes")


# -- groups and offsets


def test_groups_are_listed_with_their_lag(commands: Commands, topic: str, group: str) -> None:
    listed = commands.run("groups list --state empty")
    lag = commands.run(f"groups lag {group}")
    described = commands.run(f"groups describe {group}")
    state = commands.run(f"groups describe {group} --state")
    members = commands.run(f"groups describe {group} --members")

    assert [group, "Classic", "Empty", "-"] in listed.rows()
    assert lag.rows()[1] == [group, "Empty", "0", "1", "2", "3"]
    assert described.rows()[1:] == [
        [group, topic, "0", "0", "3", "3", "-", "-", "-"],
        [group, topic, "1", "0", "0", "0", "-", "-", "-"],
    ]
    assert state.rows()[1][:4] == [group, "Classic", "Empty", "0"]
    assert (members.out, members.err) == ("", "There are no members.\n")


def test_lag_is_shown_as_time_on_request(commands: Commands, group: str) -> None:
    table = commands.run(f"groups lag {group} --time")
    first, second = commands.run(f"groups describe {group} --time --json").json()

    assert columns(table)[-1] == "behind"
    assert 0 <= first["lag_ms"] < 60_000
    assert second["lag_ms"] == 0


def test_groups_are_printed_as_json(commands: Commands, topic: str, group: str) -> None:
    (lag,) = commands.run(f"groups lag {group} --json").json()
    first, _ = commands.run(f"groups describe {group} --json").json()
    (state,) = commands.run(f"groups describe {group} --state --json").json()
    listed = commands.run("groups list --type classic --json").json()
    members = commands.run(f"groups describe {group} --members --json").json()

    assert (lag["group"], lag["partitions"], lag["lag"]) == (group, 2, 3)
    assert (first["topic"], first["offset"], first["end"], first["lag"], first["member"]) == (
        topic,
        0,
        3,
        3,
        None,
    )
    assert (state["type"], state["coordinator"], state["epoch"]) == ("Classic", 1, None)
    assert {"group": group, "type": "Classic", "state": "Empty", "protocol": ""} in listed
    assert members == []


def test_a_reset_is_previewed_and_done_only_with_execute(commands: Commands, topic: str, group: str) -> None:
    output = commands.run(f"groups reset-offsets {group} --topic {topic}:0 --to-latest")
    before = commands.run(f"groups lag {group} --json").json()
    done = commands.run(f"groups reset-offsets {group} --all-topics --to-offset 2 --execute --json").json()
    after = commands.run(f"groups lag {group} --json").json()

    assert output.rows()[0] == [
        "group",
        "topic",
        "partition",
        "current",
        "offset",
        "new",
        "offset",
        "difference",
    ]
    assert output.rows()[1] == [group, topic, "0", "0", "3", "+3"]
    assert "Add --execute" in output.err
    assert (before[0]["lag"], after[0]["lag"]) == (3, 1)
    assert [(each["partition"], each["offset"]) for each in done] == [(0, 2), (1, 0)]


@pytest.mark.parametrize(
    ("where", "offset"),
    [
        ("--to-earliest", 0),
        ("--to-current", 0),
        ("--shift-by 2", 2),
        ("--shift-by=-5", 0),
        ("--to-offset 99", 3),
        ("--to-time 1000", 0),
        ("--to-time 2100-01-01T00:00:00Z", 3),
    ],
)
def test_a_group_is_reset_to_any_given_position(
    commands: Commands, topic: str, group: str, where: str, offset: int
) -> None:
    (planned,) = commands.run(f"groups reset-offsets {group} --topic {topic}:0 {where} --json").json()

    assert planned == {
        "group": group,
        "topic": topic,
        "partition": 0,
        "current_offset": 0,
        "offset": offset,
        "difference": offset,
    }


def test_a_mistyped_group_is_not_created_by_a_reset(commands: Commands, topic: str, group: str) -> None:
    mistyped = f"{group}x"

    failed = commands.run(
        f"groups reset-offsets {mistyped} --topic {topic} --to-earliest --execute", status=1
    )
    listed = commands.run("groups list --json").json()

    assert f"did you mean {group}?" in failed.err
    assert "add --create for a new group" in failed.err
    assert mistyped not in [each["group"] for each in listed]


def test_a_reset_to_a_relative_time(commands: Commands, topic: str, group: str) -> None:
    (planned,) = commands.run(f"groups reset-offsets {group} --topic {topic}:0 --to-time 15m --json").json()

    assert planned["offset"] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topics delete {topic}x", "did you mean {topic}?"),
        ("topics describe {topic}x", "did you mean {topic}?"),
        ("topics alter {topic}x --partitions 9", "did you mean {topic}?"),
        ("configs describe topic {topic}x", "did you mean {topic}?"),
        ("consume {topic}x", "did you mean {topic}?"),
        ("perf consume {topic}x", "did you mean {topic}?"),
        ("groups describe {group}x", "did you mean {group}?"),
        ("groups delete {group}x", "did you mean {group}?"),
        ("acls list", "does not serve DescribeAcls; this broker does not support ACLs"),
        ("users list", "does not serve DescribeUserScramCredentials; this broker does not support users"),
        ("quotas list", "does not serve DescribeClientQuotas; this broker does not support client quotas"),
    ],
)
def test_unknown_names_are_answered_with_the_closest_one(
    commands: Commands, topic: str, group: str, line: str, message: str
) -> None:
    failed = commands.run(line.format(topic=topic, group=group), status=1)

    assert message.format(topic=topic, group=group) in failed.err
    assert "topics create" not in failed.err


def test_offsets_and_groups_are_deleted(commands: Commands, topic: str, group: str) -> None:
    offsets = commands.run(f"groups delete-offsets {group} --topic {topic}:1")
    deleted = commands.run(f"groups delete {group} --json").json()

    assert offsets.rows()[1] == [group, topic, "1"]
    assert deleted == [{"group": group}]


def test_partition_offsets_are_shown_and_records_deleted(commands: Commands, topic: str) -> None:
    commands.run(f"produce {topic} a b c --partition 0")

    latest = commands.run(f"offsets get {topic}")
    youngest = commands.run(f"offsets get {topic} --time max-timestamp --json").json()
    deleted = commands.run(f"offsets delete-records {topic}:0=2 --json").json()
    emptied = commands.run(f"offsets delete-records {topic}:0=end")
    earliest = commands.run(f"offsets get {topic} --time earliest --json").json()

    assert [row[:3] for row in latest.rows()[1:]] == [[topic, "0", "3"], [topic, "1", "0"]]
    assert youngest[0]["offset"] in range(3)
    assert youngest[1]["offset"] is None
    assert youngest[0]["timestamp_ms"] > 0
    assert deleted == [{"topic": topic, "partition": 0, "start_offset": 2}]
    assert emptied.rows()[1] == [topic, "0", "3"]
    assert earliest[0]["offset"] == 3


# -- the cluster


def test_the_cluster_and_its_quorum_are_described(commands: Commands, node: PenstockBroker) -> None:
    described = commands.run("cluster describe")
    (broker,) = commands.run("cluster describe --fenced --json").json()
    identity = commands.run("cluster id").out.strip()
    apis = commands.run("cluster apis --broker 1 --json").json()
    status = commands.run("quorum status --json").json()
    replicas = commands.run("quorum replicas")

    assert described.rows()[1] == ["1", "127.0.0.1", str(node.port), "-", "yes", "no"]
    assert (broker["broker"], broker["is_controller"], broker["is_fenced"]) == (1, True, False)
    assert len(identity) == 22
    assert next(each for each in apis if each["api"] == "Metadata")["usable_version"] == 13
    assert (status["leader"], status["voters"], status["observers"]) == (1, [1], [])
    assert replicas.rows()[1][:2] == ["1", "leader"]
    assert commands.run("cluster id --json").json() == {"cluster_id": identity}
    assert "leader" in commands.run("quorum status").out


def test_features_are_described_and_a_change_is_tried(commands: Commands) -> None:
    table = commands.run("features describe")
    output = {each["feature"]: each for each in commands.run("features describe --json").json()}
    same = output["metadata.version"]["level"]
    tried = commands.run(f"features upgrade metadata.version={same} --dry-run --json").json()

    assert columns(table) == ["feature", "level", "lowest", "highest"]
    assert output["group.version"]["level"] == 1
    assert tried == [{"feature": "metadata.version", "level": same, "is_done": False}]


def test_directories_are_described(commands: Commands, node: PenstockBroker, topic: str) -> None:
    table = commands.run("log-dirs list")
    (listed,) = commands.run("log-dirs list --broker 1 --json").json()
    described = commands.run(f"log-dirs describe {topic} --json").json()
    rows = commands.run(f"log-dirs describe {topic}").rows()

    assert columns(table)[:3] == ["broker", "directory", "replicas"]
    assert (listed["directory"], listed["error"]) == (str(node.log_directories[0]), None)
    assert listed["total_bytes"] > listed["usable_bytes"] > 0
    assert [(each["partition"], each["size_bytes"], each["is_future"]) for each in described] == [
        (0, 0, False),
        (1, 0, False),
    ]
    assert rows[1][:3] == ["1", topic, "0"]


def test_transactions_are_described_and_terminated(
    commands: Commands, node: PenstockBroker, topic: str
) -> None:
    from penstock import Producer

    name = new_name("transactional")
    with Producer(node.bootstrap, transactional_id=name) as producer:
        with producer.transaction():
            producer.send(topic, b"x", partition=0)

        listed = commands.run("transactions list")
        (described,) = commands.run(f"transactions describe {name} --json").json()
        (state,) = commands.run(f"transactions producers {topic}:0 --json").json()
        ended = commands.run(f"transactions terminate {name}")

    assert [name, "CompleteCommit"] in [row[:2] for row in listed.rows()]
    assert (described["state"], described["coordinator"], described["partitions"]) == (
        "CompleteCommit",
        1,
        [],
    )
    assert (state["producer_id"], state["transaction_start_offset"]) == (described["producer_id"], None)
    assert ended.out == f"{name} has no open transaction now\n"
    found = commands.run(f"transactions list --state Empty --pattern {name} --json").json()
    assert len(found) == 1
    assert commands.run(f"transactions find-hanging --topic {topic} --json").json() == []
    assert columns(commands.run(f"transactions describe {name}"))[:3] == ["transactional", "id", "state"]
    assert columns(commands.run(f"transactions producers {topic}:0"))[:2] == ["topic", "partition"]


def test_a_reassignment_plan_is_printed_for_programs(commands: Commands, topic: str, tmp_path: Path) -> None:
    proposed = json.loads(commands.run(f"reassign propose {topic} --brokers 1").out)
    current = json.loads(commands.run(f"reassign current {topic}").out)

    assert proposed["partitions"][0] == {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    assert [each["replicas"] for each in current["partitions"]] == [[1], [1]]


# -- both forms of a command


def test_penstocks_words_and_kafkas_flags_both_work(commands: Commands, topic: str, group: str) -> None:
    assert [topic] in commands.run("topics --list").rows()
    assert f"Topic: {topic}" in commands.run(f"topics --describe --topic {topic}").out
    assert [group] in commands.run("groups --list").rows()
    assert f"{topic}:0:3" in commands.run(f"offsets --topic {topic}").out
    assert "Dynamic configs" in commands.run(f"configs --describe --topic {topic}").out
    assert '"logDirs"' in commands.run("log-dirs --describe").out
