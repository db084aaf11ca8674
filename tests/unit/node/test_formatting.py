"""What `storage format` writes, and what it refuses."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.config.broker import BrokerSettings
from penstock.metadata.records import FeatureLevelRecord
from penstock.node.formatting import FormatPlan, FormatRefused, InitialQuorum, execute, parse_features, plan
from penstock.protocol.types import parse_uuid
from penstock.quorum.bootstrap import read_bootstrap
from penstock.quorum.messages import SnapshotId
from penstock.quorum.snapshots import Snapshots
from penstock.quorum.voters import ReplicaKey, Voter, VoterEndpoint, Voters
from penstock.runtime.disk import RealDisk
from penstock.storage.meta_properties import read_meta_properties

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
FIRST, SECOND = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
INITIAL = f"1@host1:9093:{FIRST},2@[::1]:9094:{SECOND}"
STATIC = {"controller.quorum.voters": "1@host1:9093,2@host2:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "host1:9093,host2:9093"}


def settings_of(folder: Path, extra: dict[str, str], roles: str = "broker,controller") -> BrokerSettings:
    listeners = "PLAINTEXT://host1:9092"
    if "controller" in roles:
        listeners = (
            "PLAINTEXT://host1:9092,CONTROLLER://host1:9093"
            if "broker" in roles
            else "CONTROLLER://host1:9093"
        )
    return BrokerSettings.load(
        {
            "node.id": "1",
            "process.roles": roles,
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{folder}/a,{folder}/b",
            "metadata.log.dir": f"{folder}/b",
            **extra,
        }
    )


def format_it(
    settings: BrokerSettings,
    quorum: InitialQuorum,
    *,
    features: tuple[str, ...] = (),
    release: str | None = None,
    cluster_id: str = CLUSTER_ID,
    ignores_formatted: bool = False,
) -> FormatPlan:
    disk = RealDisk()
    planned = plan(
        settings,
        disk,
        cluster_id=cluster_id,
        quorum=quorum,
        features=parse_features(features),
        release=release,
        ignores_formatted=ignores_formatted,
        rng=random.Random(1),
    )
    execute(planned, disk, now_ms=1)
    return planned


def voters_in(folder: Path) -> Voters | None:
    log_folder = folder / "__cluster_metadata-0"
    if not log_folder.exists():
        return None
    head, batches = Snapshots(RealDisk(), str(log_folder)).load(SnapshotId(0, 0))
    assert head.kraft_version == 1
    assert list(batches) == []
    return head.voters


def test_a_standalone_controller_is_its_only_voter(tmp_path: Path) -> None:
    planned = format_it(settings_of(tmp_path, {}), InitialQuorum(standalone=True))

    identity = read_meta_properties(RealDisk(), f"{tmp_path}/b")
    assert identity is not None
    assert (identity.cluster_id, identity.node_id) == (CLUSTER_ID, 1)
    key = ReplicaKey(1, identity.directory_id)
    assert voters_in(tmp_path / "b") == Voters([Voter(key, (VoterEndpoint("CONTROLLER", "host1", 9093),))])
    assert voters_in(tmp_path / "a") is None
    assert planned.is_voter
    for name in ("a", "b"):
        records = read_bootstrap(RealDisk(), f"{tmp_path}/{name}")
        assert records is not None
        assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
        assert len(records) == 6


def test_initial_controllers_decide_the_directory_id(tmp_path: Path) -> None:
    planned = format_it(settings_of(tmp_path, DYNAMIC), InitialQuorum(initial_controllers=INITIAL))

    identity = read_meta_properties(RealDisk(), f"{tmp_path}/b")
    assert identity is not None
    assert identity.directory_id == parse_uuid(FIRST)
    voters = voters_in(tmp_path / "b")
    assert voters is not None
    assert [(voter.key.node_id, voter.endpoints[0].host, voter.endpoints[0].port) for voter in voters] == [
        (1, "host1", 9093),
        (2, "::1", 9094),
    ]
    assert planned.is_voter


@pytest.mark.parametrize(
    ("extra", "quorum", "roles"),
    [
        (STATIC, InitialQuorum(), "broker,controller"),
        (DYNAMIC, InitialQuorum(no_initial_controllers=True), "controller"),
        (DYNAMIC, InitialQuorum(), "broker"),
    ],
)
def test_a_node_that_does_not_know_the_voters_gets_no_snapshot(
    extra: dict[str, str], quorum: InitialQuorum, roles: str, tmp_path: Path
) -> None:
    planned = format_it(settings_of(tmp_path, extra, roles), quorum)

    assert voters_in(tmp_path / "b") is None
    assert not planned.is_voter
    assert read_bootstrap(RealDisk(), f"{tmp_path}/b") is not None


def test_the_voters_of_a_format_that_crashed_are_not_those_of_the_next_one(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, DYNAMIC, "controller")
    format_it(settings, InitialQuorum(initial_controllers=INITIAL))
    for path in tmp_path.glob("*/meta.properties"):
        path.unlink()  # the file that is written last

    format_it(settings, InitialQuorum(no_initial_controllers=True))

    assert list(tmp_path.glob("*/__cluster_metadata-0/*")) == []
    assert read_meta_properties(RealDisk(), f"{tmp_path}/b") is not None


def test_features_and_releases_decide_the_levels(tmp_path: Path) -> None:
    format_it(
        settings_of(tmp_path, {}),
        InitialQuorum(standalone=True),
        release="4.0",
        features=("transaction.version=0",),
    )

    assert read_bootstrap(RealDisk(), f"{tmp_path}/b") == [
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        FeatureLevelRecord(name="group.version", feature_level=1),
    ]


@pytest.mark.parametrize(
    ("extra", "quorum", "roles", "features", "message"),
    [
        (
            STATIC,
            InitialQuorum(standalone=True),
            "controller",
            (),
            "You cannot specify controller.quorum.voters",
        ),
        (
            DYNAMIC,
            InitialQuorum(standalone=True),
            "broker",
            (),
            "You can only use --standalone on a controller",
        ),
        (DYNAMIC, InitialQuorum(), "controller", (), "you must specify one of the following: --standalone"),
        (DYNAMIC, InitialQuorum(initial_controllers="1@h:1"), "controller", (), "id@host:port:directory-id"),
        (
            DYNAMIC,
            InitialQuorum(initial_controllers="1@h:1:XX"),
            "controller",
            (),
            "id@host:port:directory-id",
        ),
        (DYNAMIC, InitialQuorum(initial_controllers=","), "controller", (), "no controller is listed"),
        (
            DYNAMIC,
            InitialQuorum(initial_controllers=f"1@h:1:{FIRST},1@h:2:{SECOND}"),
            "controller",
            (),
            "listed twice",
        ),
        (
            {},
            InitialQuorum(standalone=True),
            "controller",
            ("kraft.version=0",),
            "Cannot set kraft.version to 0",
        ),
        (STATIC, InitialQuorum(), "controller", ("kraft.version=1",), "Cannot set kraft.version to 1 unless"),
        ({}, InitialQuorum(standalone=True), "controller", ("group.version=9",), "No feature:group.version"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(
    extra: dict[str, str],
    quorum: InitialQuorum,
    roles: str,
    features: tuple[str, ...],
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(FormatRefused, match=message.replace(".", r"\.")):
        format_it(settings_of(tmp_path, extra, roles), quorum, features=features)

    assert list(tmp_path.iterdir()) == []


def test_directories_of_another_cluster_or_node_are_refused(tmp_path: Path) -> None:
    standalone = InitialQuorum(standalone=True)
    format_it(settings_of(tmp_path, {}), standalone)

    with pytest.raises(FormatRefused, match="holds data of cluster"):
        format_it(settings_of(tmp_path, {}), standalone, cluster_id="other", ignores_formatted=True)
    with pytest.raises(FormatRefused, match="holds data of node 1, but this is node 2"):
        format_it(settings_of(tmp_path, {"node.id": "2"}), standalone, ignores_formatted=True)
    with pytest.raises(FormatRefused, match=r"is already formatted\. Use --ignore-formatted"):
        format_it(settings_of(tmp_path, {}), standalone)
    format_it(settings_of(tmp_path, {}), standalone, ignores_formatted=True)
