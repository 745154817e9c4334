"""The table of figures, with both sides of each, and the ledger of what was measured."""

import json
import pathlib
import re
import statistics
import time
from collections.abc import Sequence
from typing import Any

from rig.load import Plot
from rig.servers import ROOT, say

#: The last figures of each part, so that one part can be measured without the others.
LAST_MEASURED = ROOT / ".build" / "benchmarks.json"
HEAD = ("measured", "Interlock", "peer", "result", "target")


Row = tuple[str, ...]


class Table:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        #: Tables with the details of a figure, as Markdown.
        self.details: list[str] = []
        #: Input of `figures.draw`.
        self.plots: list[Plot] = []

    @property
    def holds(self) -> bool:
        return all(row[-1] != "NO" for row in self.rows)

    def add(self, what: str, ours: str, theirs: str, figure: str, bound: str = "–", holds: bool | None = None) -> None:
        """Adds a figure, with or without a bound."""
        verdict = "–" if holds is None else "yes" if holds else "NO"
        self.rows.append((what, ours, theirs, figure, bound, verdict))
        judged = "" if holds is None else f" (bound {bound}) {'ok' if holds else 'MISSED'}"
        say(f"  {what}: {ours} | {theirs} | {figure}{judged}")

    def ratio(self, what: str, ours: Sequence[float], theirs: Sequence[float], bound: float | None = None) -> None:
        """Adds a ratio of figures per second, with or without a bound."""
        mine, other = statistics.median(ours), statistics.median(theirs)
        # Pair by pair: drift of the machine's speed affects both sides of a pair.
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        sides = f"{mine:,.0f}/s", f"{other:,.0f}/s"
        if bound is None:
            self.add(what, *sides, f"{ratio:.2f}")
        else:
            self.add(what, *sides, f"{ratio:.2f}", f"≥ {bound}", ratio >= bound)

    def missing(self, what: str, why: str) -> None:
        """Adds a figure that cannot be measured here."""
        self.add(what, "–", f"missing: {why}", "missing")

    def detail(self, title: str, head: Sequence[str], rows: Sequence[Row]) -> None:
        self.details.append(f"### {title}\n\n{markdown(head, rows)}")

    def markdown(self) -> str:
        return figures(self.rows)


def figures(rows: Sequence[Row]) -> str:
    """A table of figures. Rows named `group: figure` come below a line with their group. A result that repeats
    Interlock's figure is left out, and so are empty columns."""
    lines: list[Row] = []
    last = ""
    for what, ours, theirs, figure, bound, verdict in rows:
        group, _, name = what.rpartition(": ")
        if group and group != last:
            lines.append((f"**{group}**", "", "", "", ""))
        last = group
        target = f"{bound} **missed**" if verdict == "NO" else bound
        cells = (name, ours, theirs, "" if repeats(figure, what, ours) else figure, target)
        lines.append(tuple("" if cell == "–" else cell for cell in cells))
    kept = [column for column in range(len(HEAD)) if any(line[column] for line in lines)]
    return markdown([HEAD[column] for column in kept], [tuple(line[column] for column in kept) for line in lines])


def repeats(figure: str, what: str, ours: str) -> bool:
    """Whether a result is one of Interlock's figures. A ratio is only if it is all that Interlock's column says."""
    return figure == ours or ("÷" not in what and bool(re.search(rf"(^|[ /]){re.escape(figure)}($|[ ,;])", ours)))


def markdown(head: Sequence[str], rows: Sequence[Row], gap: str = "") -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{gap}" + f"{gap}|{gap}".join(line) + f"{gap}|" for line in lines)


class Ledger:
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
            # How it was measured, and what else is to say.
            "notes": notes,
            "day": time.strftime("%Y-%m-%d"),
        }
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(json.dumps(self.parts, indent=1))

    def missing(self, parts: Sequence[str]) -> list[str]:
        return [part for part in parts if part not in self.parts]

    def ordered(self, parts: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        return [(part, self.parts[part]) for part in parts if part in self.parts]
