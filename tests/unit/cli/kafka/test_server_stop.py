"""How a node is recognised among the machine's processes."""

from __future__ import annotations

import pytest

from penstock.cli.kafka.server_stop import read_command


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("python -m penstock serve", (None, ())),
        (
            "/x/python /x/.venv/bin/penstock serve a.properties --set node.id=2",
            ("a.properties", ("node.id=2",)),
        ),
        (
            "python bin/penstock kafka-server-start c/s.properties --override node.id=3",
            ("c/s.properties", ("node.id=3",)),
        ),
        ("python -m penstock serve --log-level debug --set=node.id=4 f", ("f", ("node.id=4",))),
        ("python -m penstock topics list", None),
        ("grep penstock serve.txt", None),
        ("penstock", None),
        ("", None),
    ],
)
def test_a_node_is_recognised_by_its_command_line(line: str, found: object) -> None:
    assert read_command([*line.split(), ""]) == found
