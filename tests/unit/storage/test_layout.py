"""File and folder names."""

from __future__ import annotations

import pytest

from penstock.storage import layout


@pytest.mark.parametrize("topic", ["../x", "a/b", "", ".", "..", "a" * 250, "späne", "a b", "a\0"])
def test_a_topic_name_that_is_not_a_single_folder_is_refused(topic: str) -> None:
    with pytest.raises(ValueError, match="not a valid topic name"):
        layout.partition_folder(topic, 0)


@pytest.mark.parametrize("topic", ["orders", "a.b_c-d", "orders-1", "x" * 249, "__cluster_metadata"])
def test_partition_folder_names_are_parsed(topic: str) -> None:
    assert layout.parse_partition_folder(layout.partition_folder(topic, 12)) == (topic, 12, "")


@pytest.mark.parametrize("kind", ["-delete", "-stray", "-future"])
def test_marked_folders(kind: str) -> None:
    name = layout.marked_folder("a-1.b", 3, unique="f" * 32, kind=kind)

    assert name == "a-1.b-3." + "f" * 32 + kind
    assert layout.parse_partition_folder(name) == ("a-1.b", 3, kind)
    assert len(layout.marked_folder("x" * 249, 3, unique="f" * 32, kind=kind)) == 255


@pytest.mark.parametrize("name", ["orders", "orders-", "orders-x", "lost+found", "-1", "orders-1.x-gone"])
def test_other_folder_names_are_ignored(name: str) -> None:
    assert layout.parse_partition_folder(name) is None


def test_segment_files() -> None:
    assert layout.segment_file(42, ".log") == "00000000000000000042.log"
    assert layout.parse_segment_file("00000000000000000042.timeindex") == (42, ".timeindex")
    for name in ("42.log", "leader-epoch-checkpoint", "00000000000000000042.log.deleted"):
        assert layout.parse_segment_file(name) is None
