"""The settings of a session, by where it runs."""

from __future__ import annotations

import pytest

from penstock.spark.settings import Place, addresses_of, cores_of, place_of, settings_for


@pytest.mark.parametrize(
    ("master", "place"),
    [
        ("local", Place.LOCAL),
        ("local[*]", Place.LOCAL),
        ("local[4, 2]", Place.LOCAL),
        ("local-cluster[2,1,1024]", Place.CLUSTER),
        ("spark://10.0.0.7:7077", Place.CLUSTER),
        ("yarn", Place.CLUSTER),
        ("k8s://https://10.0.0.7:6443", Place.CLUSTER),
        ("sc://10.0.0.7:15002/;token=x", Place.CONNECT),
    ],
)
def test_the_master_url_says_where_spark_runs(master: str, place: Place) -> None:
    assert place_of(master) is place


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[*]", 8), ("local[*, 4]", 8)]
)
def test_a_local_master_says_how_many_cores_it_uses(master: str, cores: int) -> None:
    assert cores_of(master, machine=8) == cores


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("local[*]", []),
        ("k8s://https://10.0.0.7:6443", []),
        ("spark://10.0.0.7:7078", [("10.0.0.7", 7078)]),
        ("spark://one:7077,two", [("one", 7077), ("two", 7077)]),
        ("sc://host", [("host", 15002)]),
        ("sc://host:443/;use_ssl=true;token=x", [("host", 443)]),
    ],
)
def test_the_master_url_gives_the_addresses_to_check(master: str, addresses: list[tuple[str, int]]) -> None:
    assert addresses_of(master) == addresses


def test_shuffle_partitions_match_the_cores() -> None:
    assert settings_for("local[3]", machine_cores=8, given={})["spark.sql.shuffle.partitions"] == "3"


def test_a_users_settings_override_ours() -> None:
    chosen = {"spark.sql.shuffle.partitions": "7", "spark.log.level": "INFO"}

    settings = settings_for("local[2]", machine_cores=8, given=chosen)

    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.log.level"] == "INFO"


def test_connect_sessions_get_only_runtime_settings() -> None:
    settings = settings_for("sc://localhost", machine_cores=8, given={})

    assert all(name.startswith("spark.sql.") for name in settings)


def test_the_driver_of_a_remote_cluster_does_not_listen_on_loopback() -> None:
    assert "spark.driver.bindAddress" not in settings_for("spark://host:7077", machine_cores=8, given={})


def test_the_driver_of_a_local_cluster_listens_on_loopback() -> None:
    settings = settings_for("spark://127.0.0.1:7077", machine_cores=8, given={})

    assert settings["spark.driver.host"] == "127.0.0.1"
