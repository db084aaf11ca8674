"""kafka-consumer-groups lists, describes, resets and deletes groups of both types."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.clients.java import JavaTools
from compat.conftest import StartHost
from compat.groups import members
from compat.groups.members import Client, Group
from compat.groups.state import committed_offsets, end_offsets
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.load import Load
from harness.waiting import wait_until

COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PARTITIONS = (0, 1, 2)
CLIENTS = [members.CONFLUENT_RANGE, members.CONFLUENT_NEW]

Run = Callable[..., str]
Row = dict[str, str]


@pytest.fixture
def run(java_tools: JavaTools, group_cluster: Broker) -> Run:
    """Run the command; its output, also if it fails."""
    return lambda *arguments: java_tools.run(
        COMMAND, "--bootstrap-server", group_cluster.bootstrap, *arguments
    )


@pytest.fixture(scope="module", params=CLIENTS, ids=["classic", "consumer"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture(scope="module")
def working(group_cluster: Broker, host_of: StartHost, client: Client) -> Iterator[Group]:
    """A group with two members that have read and committed everything."""
    group = _new_group(group_cluster)
    with Load(group.bootstrap, group.topic) as load:
        for member in ("a", "b"):
            group.join(host_of(client), member, client.settings)
        group.wait_until_shared_by("a", "b")
    group.wait_until_read(load.written)
    wait_until(lambda: committed_offsets(group) == end_offsets(group), "everything is committed")
    yield group
    group.leave_all()


@pytest.fixture
def idle(group_cluster: Broker, host_of: StartHost, client: Client) -> Group:
    """A group whose only member read everything and left."""
    group = _new_group(group_cluster)
    with Load(group.bootstrap, group.topic) as load:
        group.join(host_of(client), "a", client.settings)
        group.wait_until_shared_by("a")
    group.wait_until_read(load.written)
    group.leave_all()
    assert committed_offsets(group) == end_offsets(group)
    return group


def _new_group(cluster: Broker) -> Group:
    topic = create_topic(cluster.bootstrap, "command", partitions=len(PARTITIONS))
    return Group(cluster.bootstrap, new_name("commanded"), topic, partition_count=len(PARTITIONS))


def rows(output: str, *, group: str | None = None) -> list[Row]:
    """The lines of a table under its heading; with several groups, those of one."""
    lines = [
        line.split()
        for line in output.replace("COORDINATOR (ID)", "COORDINATOR").splitlines()
        if line.strip()
    ]
    at = next((number for number, columns in enumerate(lines) if columns[0] in ("GROUP", "TOPIC")), None)
    assert at is not None, output
    # The coordinator takes two columns: its address and its id.
    table = [[column for column in columns if not column.startswith("(")] for columns in lines[at + 1 :]]
    found = [dict(zip(lines[at], columns, strict=True)) for columns in table]
    return [row for row in found if group is None or row["GROUP"] == group]


def test_lists_groups_by_state_and_type(run: Run, working: Group, client: Client) -> None:
    kind, other = ("Consumer", "classic") if client.is_new else ("Classic", "consumer")
    assert working.id in run("--list").split()
    assert rows(run("--list", "--state"), group=working.id) == [{"GROUP": working.id, "STATE": "Stable"}]
    assert rows(run("--list", "--state", "stable"), group=working.id) == [
        {"GROUP": working.id, "STATE": "Stable"}
    ]
    assert rows(run("--list", "--state", "Empty,Dead"), group=working.id) == []
    assert rows(run("--list", "--type"), group=working.id) == [{"GROUP": working.id, "TYPE": kind}]
    assert rows(run("--list", "--type", kind), group=working.id) == [{"GROUP": working.id, "TYPE": kind}]
    assert rows(run("--list", "--type", other), group=working.id) == []


def test_describes_the_offsets_of_an_active_group(run: Run, working: Group, client: Client) -> None:
    ends = end_offsets(working)
    described = rows(run("--describe", "--group", working.id, "--offsets", "--verbose"))
    assert sorted(int(row["PARTITION"]) for row in described) == list(PARTITIONS)
    for row in described:
        assert row["TOPIC"] == working.topic
        assert int(row["CURRENT-OFFSET"]) == int(row["LOG-END-OFFSET"]) == ends[int(row["PARTITION"])]
        assert (row["LAG"], row["LEADER-EPOCH"]) == ("0", "0")
        assert (row["HOST"], row["CLIENT-ID"]) == ("/127.0.0.1", "rdkafka")
    assert len({row["CONSUMER-ID"] for row in described}) == 2


def test_describes_the_members_of_an_active_group(run: Run, working: Group, client: Client) -> None:
    shown = sorted(row["#PARTITIONS"] for row in rows(run("--describe", "--group", working.id, "--members")))
    assert shown == ["1", "2"]

    verbose = rows(run("--describe", "--group", working.id, "--members", "--verbose"))
    assignments = {f"{working.topic}:{','.join(map(str, sorted(part)))}" for part in working.owned().values()}
    assert {row["CURRENT-ASSIGNMENT"] for row in verbose} == assignments
    if client.is_new:
        assert {row["TARGET-ASSIGNMENT"] for row in verbose} == assignments
        assert all(int(row["CURRENT-EPOCH"]) == int(row["TARGET-EPOCH"]) > 0 for row in verbose)
    else:
        assert {(row["CURRENT-EPOCH"], row["TARGET-EPOCH"]) for row in verbose} == {("-", "-")}


def test_describes_the_state_of_an_active_group(run: Run, working: Group, client: Client) -> None:
    [state] = rows(run("--describe", "--group", working.id, "--state", "--verbose"))
    assert state["COORDINATOR"] == working.bootstrap
    assert state["ASSIGNMENT-STRATEGY"] == ("uniform" if client.is_new else "range")
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")
    if client.is_new:
        assert int(state["GROUP-EPOCH"]) == int(state["TARGET-ASSIGNMENT-EPOCH"]) > 0
    else:
        assert (state["GROUP-EPOCH"], state["TARGET-ASSIGNMENT-EPOCH"]) == ("-", "-")


def test_describes_all_groups_at_once(run: Run, working: Group, idle: Group) -> None:
    output = run("--describe", "--all-groups", "--state")
    states = {
        line.split()[0]: line.split()[-2] for line in output.splitlines() if line.startswith("commanded")
    }
    assert states[working.id] == "Stable"
    assert states[idle.id] == "Empty"


def test_an_active_group_cannot_be_reset_or_deleted(run: Run, working: Group) -> None:
    before = committed_offsets(working)
    reset = run(
        "--reset-offsets", "--group", working.id, "--topic", working.topic, "--to-earliest", "--execute"
    )
    assert f"group '{working.id}' is inactive, but the current state is Stable" in reset
    assert "GroupNotEmptyException" in run("--delete", "--group", working.id)
    deleted = run("--delete-offsets", "--group", working.id, "--topic", working.topic)
    assert deleted.count("GroupSubscribedToTopicException") == len(PARTITIONS)
    assert committed_offsets(working) == before


def test_resets_offsets_in_all_forms(run: Run, idle: Group) -> None:
    ends = end_offsets(idle)
    assert min(ends.values()) > 5
    hour_ahead = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    forms = {
        ("--to-earliest",): dict.fromkeys(PARTITIONS, 0),
        ("--to-latest",): ends,
        ("--to-offset", "5"): dict.fromkeys(PARTITIONS, 5),
        ("--to-offset", "1000000"): ends,
        ("--shift-by", "-2"): {partition: end - 2 for partition, end in ends.items()},
        ("--by-duration", "PT1H"): dict.fromkeys(PARTITIONS, 0),
        ("--to-datetime", hour_ahead.strftime("%Y-%m-%dT%H:%M:%S.000")): ends,
        ("--to-datetime", "2020-01-01T00:00:00.000"): dict.fromkeys(PARTITIONS, 0),
        ("--to-current",): ends,
    }
    for form, expected in forms.items():
        planned = rows(run("--reset-offsets", "--group", idle.id, "--topic", idle.topic, *form, "--dry-run"))
        assert {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in planned} == expected, form
    assert committed_offsets(idle) == ends  # nothing was executed

    run("--reset-offsets", "--group", idle.id, "--topic", f"{idle.topic}:1", "--to-offset", "3", "--execute")
    assert committed_offsets(idle) == {**ends, 1: 3}
    run("--reset-offsets", "--group", idle.id, "--all-topics", "--shift-by", "-1", "--execute")
    assert committed_offsets(idle) == {partition: offset - 1 for partition, offset in {**ends, 1: 3}.items()}
    run("--reset-offsets", "--all-groups", "--topic", idle.topic, "--to-earliest", "--execute")
    assert committed_offsets(idle) == dict.fromkeys(PARTITIONS, 0)


def test_resets_offsets_from_a_file(run: Run, idle: Group, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    arguments = ["--reset-offsets", "--group", idle.id]
    plan.write_text(run(*arguments, "--all-topics", "--to-offset", "4", "--dry-run", "--export"))
    assert sorted(plan.read_text().split()) == [f"{idle.topic},{partition},4" for partition in PARTITIONS]

    run(*arguments, "--from-file", str(plan), "--execute")

    assert committed_offsets(idle) == dict.fromkeys(PARTITIONS, 4)
    described = rows(run("--describe", "--group", idle.id))
    assert {row["CONSUMER-ID"] for row in described} == {"-"}
    for row in described:
        assert int(row["LAG"]) == int(row["LOG-END-OFFSET"]) - 4


def test_a_group_continues_at_its_reset_offsets(
    run: Run, idle: Group, host_of: StartHost, client: Client
) -> None:
    run("--reset-offsets", "--group", idle.id, "--topic", idle.topic, "--to-offset", "2", "--execute")
    before = len(idle.history.events())

    idle.join(host_of(client), "again", client.settings)

    ends = end_offsets(idle)
    wanted = {(partition, offset) for partition in PARTITIONS for offset in range(2, ends[partition])}
    idle.history.wait_until(
        lambda events: {record[:2] for event in events[before:] for record in event.records} == wanted,
        "it read everything after offset 2, and nothing before",
    )
    idle.leave_all()


def test_deletes_offsets_and_groups(run: Run, idle: Group, client: Client) -> None:
    assert "Successful" in run("--delete-offsets", "--group", idle.id, "--topic", f"{idle.topic}:0")
    assert committed_offsets(idle) == {**end_offsets(idle), 0: -1}
    [state] = rows(run("--describe", "--group", idle.id, "--state"))
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")

    assert "was successful" in run("--delete", "--group", idle.id)

    assert committed_offsets(idle) == dict.fromkeys(PARTITIONS, -1)
    assert idle.id not in run("--list").split()
    assert "GroupIdNotFoundException" in run("--delete", "--group", idle.id)
    assert f"Group {idle.id} not found" in run("--describe", "--group", idle.id)
