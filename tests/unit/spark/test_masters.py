"""Valid master URLs, and the errors for others."""

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
def test_masters_that_spark_knows_are_accepted(master: str) -> None:
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
def test_other_masters_are_rejected_with_the_known_forms(master: str) -> None:
    with pytest.raises(BadMaster) as caught:
        check_master(master)

    assert str(caught.value).startswith(f"unknown Spark master {master!r}")
    for form in ("local[*]", "spark://host:7077", "sc://host:15002", "yarn", "k8s://"):
        assert form in str(caught.value)


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("lokal[2]", "local[2]"),
        ("spak://a:7077", "spark://a:7077"),
        ("Local[*]", "local[*]"),
        ("yarm", "yarn"),
    ],
)
def test_a_misspelt_master_is_rejected_with_a_suggestion(master: str, meant: str) -> None:
    with pytest.raises(BadMaster) as caught:
        check_master(master)

    assert f" (did you mean {meant}?); known are" in str(caught.value)
