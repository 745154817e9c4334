"""The one table of figures, both sides of each."""

import statistics

from rig import say

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
