"""The one table of figures, both sides of each."""

import json
import statistics
import time

from rig.servers import ROOT, say

#: What was measured last of each part, so that one part can be measured again without the others.
LAST_MEASURED = ROOT / ".build" / "benchmarks.json"
HEAD = ("what", "Interlock", "beside it", "figure", "bound", "holds")

class Table:
    def __init__(self):
        self.rows = []
        #: Tables of what lies behind a figure, as Markdown.
        self.details = []
        #: What `draw.py` makes files of.
        self.plots = []

    @property
    def holds(self):
        return all(row[-1] != "NO" for row in self.rows)

    def add(self, what, ours, theirs, figure, bound="–", holds=None):
        """A figure; with a bound, and whether it holds, or without."""
        verdict = "–" if holds is None else "yes" if holds else "NO"
        self.rows.append((what, ours, theirs, figure, bound, verdict))
        judged = "" if holds is None else f" (bound {bound}) {'ok' if holds else 'MISSED'}"
        say(f"  {what}: {ours} | {theirs} | {figure}{judged}")

    def ratio(self, what, ours, theirs, bound=None):
        """Of figures per second, round by round; with a bound, and whether it holds, or without."""
        mine, other = statistics.median(ours), statistics.median(theirs)
        # Pair by pair: a machine whose speed drifts moves both sides of a pair.
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        self.add(what, f"{mine:,.0f}/s", f"{other:,.0f}/s", f"{ratio:.2f}",
                 *([] if bound is None else [f"≥ {bound}", ratio >= bound]))

    def missing(self, what, why):
        """A figure that cannot be had here."""
        self.add(what, "–", f"missing: {why}", "missing")

    def detail(self, title, head, rows):
        self.details.append(f"## {title}\n\n{markdown(head, rows)}")

    def markdown(self):
        return markdown(HEAD, self.rows)


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


class Ledger:
    def __init__(self, file=LAST_MEASURED):
        self.file = file
        try:
            self.parts = json.loads(file.read_text())
        except (OSError, ValueError):
            self.parts = {}

    def note(self, part, table, rounds, commit, footnote=""):
        self.parts[part] = {
            "rows": table.rows, "details": table.details, "plots": table.plots, "rounds": rounds, "commit": commit, "footnote": footnote,
            "day": time.strftime("%Y-%m-%d")}
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(json.dumps(self.parts, indent=1))

    def missing(self, parts):
        return [part for part in parts if part not in self.parts]

    def ordered(self, parts):
        return [(part, self.parts[part]) for part in parts if part in self.parts]
