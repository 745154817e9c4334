"""Draws plots of growth as SVG files. Reads them as JSON from standard input; the argument is the folder.

Runs in the virtual environment, which has matplotlib. The same figures make the same files.
"""

import json
import math
import pathlib
import sys
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        # Text stays text, and identifiers are not random.
        "svg.fonttype": "none",
        "svg.hashsalt": "interlock",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)

import matplotlib.pyplot as pyplot  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: E402

#: Distinct for people with red-green color blindness, too.
COLORS = "#0072b2", "#d55e00"


def draw(plot: dict[str, Any], folder: pathlib.Path) -> None:
    figure, (latency, commands) = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
    sizes = plot["sizes"]
    for line, color in zip(plot["lines"], COLORS, strict=False):
        latency.plot(sizes, line["p50"], "o-", color=color, markersize=4, label=f"{line['name']}, p50")
        latency.plot(sizes, line["p99"], "s--", color=color, markersize=4, label=f"{line['name']}, p99")
        commands.plot(sizes, line["commands"], "o-", color=color, markersize=4, label=line["name"])
    latency.set_yscale("log")
    latency.set_title("latency in ms")
    commands.set_title("commands to Redis for each operation")
    highest = max((count for line in plot["lines"] for count in line["commands"] if not math.isnan(count)), default=0)
    commands.set_ylim(0, highest * 1.1 or 1)
    for axes in (latency, commands):
        axes.set_xscale("log")
        axes.set_xticks(sizes)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(plot["title"])
        axes.xaxis.set_major_formatter(number)
        axes.legend(frameon=False)
    latency.yaxis.set_major_formatter(number)
    figure.savefig(folder / plot["file"], metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


number = FuncFormatter(lambda value, _: f"{value:,.10g}")

if __name__ == "__main__":
    for plot in json.load(sys.stdin):
        draw(plot, pathlib.Path(sys.argv[1]))
