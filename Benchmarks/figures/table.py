"""The table of figures with both sides, and the ledger of the measured parts."""

import itertools
import json
import pathlib
import re
import statistics
import time
from collections.abc import Sequence
from typing import Any

from rig.load import Plot
from rig.servers import ROOT, print_line

#: The last figures of each part, so that one part can be measured without the others.
LAST_MEASURED = ROOT / ".build" / "benchmarks.json"
HEAD = ("measured", "Interlock", "baseline", "result", "target")


Row = tuple[str, ...]


class Table:
    """The figures of one part."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        #: Tables with the details of a figure, as Markdown.
        self.details: list[str] = []
        #: Input of `figures.draw`.
        self.plots: list[Plot] = []

    @property
    def holds(self) -> bool:
        return all(row[-1] != "NO" for row in self.rows)

    def add(
        self, label: str, interlock: str, peer: str, figure: str, bound: str = "–", holds: bool | None = None
    ) -> None:
        """Adds a figure, with or without a bound."""
        verdict = "–" if holds is None else "yes" if holds else "NO"
        self.rows.append((label, interlock, peer, figure, bound, verdict))
        bound_text = "" if holds is None else f" (bound {bound}) {'ok' if holds else 'MISSED'}"
        print_line(f"  {label}: {interlock} | {peer} | {figure}{bound_text}")

    def ratio(self, label: str, interlock: Sequence[float], peer: Sequence[float], bound: float | None = None) -> None:
        """Adds a ratio of figures per second, with or without a bound."""
        interlock_median, peer_median = statistics.median(interlock), statistics.median(peer)
        # Pair by pair: drift of the machine's speed affects both sides of a pair.
        ratio = statistics.median(a / b for a, b in zip(interlock, peer, strict=True))
        sides = f"{interlock_median:,.0f}/s", f"{peer_median:,.0f}/s"
        if bound is None:
            self.add(label, *sides, f"{ratio:.2f}")
        else:
            self.add(label, *sides, f"{ratio:.2f}", f"≥ {bound}", ratio >= bound)

    def missing(self, label: str, why: str) -> None:
        """Adds a figure that cannot be measured here."""
        self.add(label, "–", f"missing: {why}", "missing")

    def detail(self, title: str, head: Sequence[str], rows: Sequence[Row]) -> None:
        self.details.append(f"### {title}\n\n{markdown(head, rows)}")

    def markdown(self) -> str:
        return figures(self.rows)


def figures(rows: Sequence[Row]) -> str:
    """Returns a table of figures. Rows named `group: figure` come below a line with their group, which has the target
    if all of them share it. A result that repeats Interlock's figure is omitted, and so are empty columns."""
    lines: list[Row] = []
    for group, members in itertools.groupby(rows, key=lambda row: row[0].rpartition(": ")[0]):
        of_group = list(members)
        is_shared = bool(group) and len(of_group) > 1 and len({row[4] for row in of_group}) == 1
        if group:
            lines.append((f"**{group}**", "", "", "", target(of_group[0][4]) if is_shared else ""))
        for label, interlock, peer, figure, bound, verdict in of_group:
            words = ["" if is_shared else target(bound), "**missed**" if verdict == "NO" else ""]
            result = "" if repeats(figure, label, interlock) else figure
            cells = (label.rpartition(": ")[2], interlock, peer, result, " ".join(filter(None, words)))
            lines.append(tuple("" if cell == "–" else cell for cell in cells))
    kept = [column for column in range(len(HEAD)) if any(line[column] for line in lines)]
    return markdown([HEAD[column] for column in kept], [tuple(line[column] for column in kept) for line in lines])


def target(bound: str) -> str:
    """Returns a bound as the table shows it, without a space between its sign and its number."""
    return "" if bound == "–" else re.sub(r"([≤≥]) ", r"\1", bound)


def repeats(figure: str, label: str, interlock: str) -> bool:
    """Returns whether a result is one of Interlock's figures. A ratio must be the whole text of Interlock's column."""
    return figure == interlock or (
        "÷" not in label and bool(re.search(rf"(^|[ /]){re.escape(figure)}($|[ ,;])", interlock))
    )


def markdown(head: Sequence[str], rows: Sequence[Row], gap: str = "") -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{gap}" + f"{gap}|{gap}".join(line) + f"{gap}|" for line in lines)


class Ledger:
    """The last figures of each part, kept in a file."""

    def __init__(self, file: pathlib.Path = LAST_MEASURED) -> None:
        self.file = file
        try:
            self.parts = json.loads(file.read_text())
        except (OSError, ValueError):
            self.parts = {}

    def note(self, part: str, table: Table, rounds: int, commit: str, notes: Sequence[str]) -> None:
        self.parts[part] = {
            "rows": table.rows,
            "details": table.details,
            "plots": table.plots,
            "rounds": rounds,
            "commit": commit,
            # How it was measured, and further remarks.
            "notes": notes,
            "day": time.strftime("%Y-%m-%d"),
        }
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(json.dumps(self.parts, indent=1))

    def missing(self, parts: Sequence[str]) -> list[str]:
        return [part for part in parts if part not in self.parts]

    def ordered(self, parts: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        return [(part, self.parts[part]) for part in parts if part in self.parts]
