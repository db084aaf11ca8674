"""Run the benchmark and print its table: `python -m bench`, `python -m bench --only produce16k latency`, `--full`."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.line import Group
from bench.lines import GROUPS
from bench.peers import Peer, Penstock

RESULTS = Path(__file__).parent / "results"

Figures = dict[str, dict[str, list[float]]]


def main() -> None:
    arguments = _arguments()
    console = Console()
    groups = [
        group
        for group in GROUPS
        if (group.name in arguments.only if arguments.only else arguments.full or not group.is_long)
    ]
    figures: Figures = {"penstock": {}, "kafka": {}}
    left_out = "kafka" if arguments.penstock_only else "penstock" if arguments.kafka_only else None
    for group in groups:
        kinds = [kind for kind in group.kinds if kind.name != left_out]
        _measure(group, [Penstock] if group.between_clients else kinds, figures, console, arguments.rounds)
    result = _summary(groups, figures)
    console.print(_table(groups, result))
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / "latest.json"
    target.write_text(json.dumps(result, indent=2) + "\n")
    console.print(
        f"figures in {target.relative_to(Path.cwd()) if target.is_relative_to(Path.cwd()) else target}"
    )
    if arguments.plot:
        from bench.plot import draw

        draw(result, Path(arguments.plot))
        console.print(f"plot in {arguments.plot}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmark of Penstock and Apache Kafka 4.3.1: same machine, same run, alternating rounds.",
        epilog="examples: python -m bench --only latency small   |   python -m bench --full --plot docs/bench.svg",
    )
    parser.add_argument(
        "--only", nargs="+", choices=[group.name for group in GROUPS], help="measure only these groups"
    )
    parser.add_argument("--full", action="store_true", help="also run the long groups: 20 GiB logs")
    parser.add_argument("--rounds", type=int, help="rounds per broker, instead of the default of each group")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument(
        "--penstock-only", action="store_true", help="measure only Penstock, without ratios; for profiling"
    )
    alone.add_argument(
        "--kafka-only", action="store_true", help="measure only Apache Kafka; to check the measurement"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios into FILE (.svg or .png)")
    return parser.parse_args()


def _measure(
    group: Group, kinds: list[type[Peer]], figures: Figures, console: Console, rounds: int | None
) -> None:
    """Both brokers run at the same time, but only one is measured at a time, alternating, so that noise affects
    both."""
    peers = [kind() for kind in kinds]
    try:
        for peer in peers:
            peer.start()
        for number in range(rounds or group.rounds):
            for peer in peers:
                began = time.perf_counter()
                found = group.measure(peer)
                for name, value in found.items():
                    figures[peer.name].setdefault(name, []).append(value)
                shown = ", ".join(f"{name} {value:,.1f}" for name, value in found.items())
                took_s = time.perf_counter() - began
                console.print(
                    f"[dim]{group.name} {number + 1}[/] {peer.name}: {shown} [dim]({took_s:.0f} s)[/]"
                )
    finally:
        for peer in peers:
            peer.wipe()


def _summary(groups: list[Group], figures: Figures) -> dict[str, object]:
    lines = []
    for group, line in ((each, line) for each in groups for line in each.lines):
        row: dict[str, object] = {"name": line.name, "unit": line.unit, "more_is_better": line.is_more_better}
        for peer, found in figures.items():
            if line.name in found:
                row[peer] = statistics.median(found[line.name])
                row[f"{peer}_rounds"] = found[line.name]
        if "penstock" in row and "kafka" in row:
            ratio = float(row["penstock"]) / float(row["kafka"])  # type: ignore[arg-type]
            row |= {"ratio": ratio, "target": line.target, "met": line.is_met(ratio)}
        elif group.between_clients and line.target is not None and "penstock" in row:
            ratio = float(row["penstock"])  # type: ignore[arg-type]
            row |= {"ratio": ratio, "target": line.target, "met": line.is_met(ratio)}
        lines.append(row)
    return {
        "when": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()),
        "machine": {"cores": _cores(), "python": platform.python_version(), "system": platform.system()},
        "lines": lines,
    }


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


def _table(groups: list[Group], result: dict[str, object]) -> Table:
    table = Table(title="Penstock over Apache Kafka 4.3.1, medians of one run")
    table.add_column("line")
    for heading in ("Apache Kafka", "Penstock", "ratio", "target"):
        table.add_column(heading, justify="right")
    for row in result["lines"]:  # type: ignore[attr-defined]
        ratio, target = row.get("ratio"), row.get("target")
        sign = "≥" if row["more_is_better"] else "≤"
        # Between clients a target may also be about a figure itself.
        unit = "x" if "kafka" in row or row["unit"] == "x" else f" {row['unit']}"
        colour = {True: "green", False: "red", None: "default"}[row.get("met")]
        table.add_row(
            row["name"],
            f"{row['kafka']:,.1f} {row['unit']}" if "kafka" in row else "",
            f"{row['penstock']:,.1f} {row['unit']}" if "penstock" in row else "",
            f"[{colour}]{ratio:.2f}{unit}[/]" if ratio else "",
            f"{sign} {target}{unit}" if target else "",
        )
    return table


if __name__ == "__main__":
    main()
