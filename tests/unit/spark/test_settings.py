"""What a session is started with, by where it runs."""

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
def test_an_address_says_where_spark_runs(master: str, place: Place) -> None:
    assert place_of(master) is place


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[*]", 8), ("local[*, 4]", 8)]
)
def test_a_local_address_says_how_many_cores_work(master: str, cores: int) -> None:
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
def test_an_address_says_who_has_to_answer(master: str, addresses: list[tuple[str, int]]) -> None:
    assert addresses_of(master) == addresses


def test_state_is_cut_for_the_cores_there_are() -> None:
    assert settings_for("local[3]", machine_cores=8, said={})["spark.sql.shuffle.partitions"] == "3"


def test_what_the_user_said_outranks_ours() -> None:
    said = {"spark.sql.shuffle.partitions": "7", "spark.log.level": "INFO"}

    settings = settings_for("local[2]", machine_cores=8, said=said)

    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.log.level"] == "INFO"


def test_a_running_server_is_told_only_what_it_can_still_change() -> None:
    settings = settings_for("sc://localhost", machine_cores=8, said={})

    assert all(name.startswith("spark.sql.") for name in settings)


def test_a_cluster_is_not_told_to_listen_on_loopback() -> None:
    assert "spark.driver.bindAddress" not in settings_for("spark://host:7077", machine_cores=8, said={})


def test_the_driver_of_a_cluster_on_this_machine_stays_on_loopback() -> None:
    settings = settings_for("spark://127.0.0.1:7077", machine_cores=8, said={})

    assert settings["spark.driver.host"] == "127.0.0.1"
