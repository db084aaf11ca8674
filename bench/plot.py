"""Plots the ratios: one bar per line, to the right of 1 if Penstock is better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

BETTER, WORSE, INK = "#1f7a8c", "#c8553d", "#22333b"


def draw(result: dict[str, Any], target: Path) -> None:
    rows = [row for row in result["lines"] if "ratio" in row and "kafka" in row]
    advantages = [row["ratio"] if row["more_is_better"] else 1 / row["ratio"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(9.5, 0.36 * len(rows) + 1.3))
    positions = range(len(rows))
    axes.barh(
        positions, [value - 1 for value in advantages], left=1,
        color=[BETTER if value >= 1 else WORSE for value in advantages], height=0.62,
    )  # fmt: skip
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(positions, [row["name"] for row in rows], fontsize=9, color=INK)
    axes.invert_yaxis()
    axes.set_xticks([0.5, 1, 2, 4, 8, 16], ["0.5x", "1x", "2x", "4x", "8x", "16x"], fontsize=9)
    axes.minorticks_off()
    for position, row, value in zip(positions, rows, advantages, strict=True):
        shown = f"{value:.1f}x   {row['penstock']:,.0f} vs {row['kafka']:,.0f} {row['unit']}"
        axes.annotate(shown, (max(value, 1), position), xytext=(5, 0), textcoords="offset points",
                      va="center", fontsize=8, color=INK)  # fmt: skip
    axes.set_xlim(min(0.5, *advantages), max(advantages) * 6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title(
        "Times better than Apache Kafka 4.3.1, same machine, same run", fontsize=11, color=INK, loc="left"
    )
    figure.tight_layout()
    figure.savefig(target, dpi=140)
    pyplot.close(figure)
