"""What was measured last of each part, so that one part can be measured again without the others."""

import json
import time

from rig import ROOT

FILE = ROOT / ".build" / "benchmarks.json"


class Ledger:
    def __init__(self, file=FILE):
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
