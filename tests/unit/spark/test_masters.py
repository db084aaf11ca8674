"""What may stand for the place where Spark runs, and what is said of anything else."""

from __future__ import annotations

import pytest

from penstock.spark.masters import BadMaster, check_master


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[*, 3]",
        "local[2,1]",
        "local-cluster[2,1,1024]",
        "spark://127.0.0.1:7077",
        "spark://one:7077,two:7077",
        "spark://[::1]:7077",
        "sc://host",
        "sc://host:15002/;token=abc",
        "yarn",
        "k8s://https://host:6443",
    ],
)
def test_what_spark_knows_is_let_through(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master",
    [
        "lokal",
        "local[",
        "local[0]",
        "local[a]",
        "local[2",
        "spark://",
        "spark:/host",
        "sc://",
        "k8s://",
        "x",
        " local",
    ],
)
def test_anything_else_is_refused_with_what_there_is(master: str) -> None:
    with pytest.raises(BadMaster) as refused:
        check_master(master)

    assert str(refused.value).startswith(f"Spark knows no master {master!r}")
    for form in ("local[*]", "spark://host:7077", "sc://host:15002", "yarn", "k8s://"):
        assert form in str(refused.value)


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("lokal[2]", "local[2]"),
        ("spak://a:7077", "spark://a:7077"),
        ("Local[*]", "local[*]"),
        ("yarm", "yarn"),
    ],
)
def test_a_slip_of_the_pen_is_told_with_what_was_meant(master: str, meant: str) -> None:
    with pytest.raises(BadMaster) as refused:
        check_master(master)

    assert f" (is {meant} meant?); there is" in str(refused.value)
