"""Translates the keys of rate limits into counters of `LimitTrace.tla`."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from traces.calls import Call, SkippedError

ALGORITHMS = ["fixed", "sliding", "gcra", "aligned"]
# The greatest window, in microseconds, and the times to which farther ones are clipped. The sums of two fit into TLC's
# integers, which have 32 bits.
FAR = 1 << 30
MICROSECONDS = 1000
NONE: dict[str, Any] = {"n": 0, "left": 0, "log": [], "rep": []}


@dataclasses.dataclass
class Rule:
    """A limit as one counter applies it. `window` is in microseconds."""

    alg: str
    cap: int
    limit: int
    window: int
    shadow: bool = False

    @property
    def name(self) -> str:
        """The rule as `open_cells` writes it into a counter."""
        return f"0{self.limit:010.0f}{self.window / 1000:011.0f}{self.cap:07.0f}"


def clip(number: int, low: int = -FAR, high: int = FAR) -> int:
    """Returns the nearest number that the module can add and subtract."""
    return max(low, min(number, high))


def counter(call: Call, rule: Rule, entry: dict[str, Any] | None) -> dict[str, Any]:
    """Translates a key into a counter: see `LimitCounters.tla` and, for `rep`, `Sound` in `LimitTrace.tla`."""
    # A key that does not expire lasts for as long as the module can tell.
    ttl = FAR // MICROSECONDS if entry is None else call.remaining(entry)
    ttl = FAR // MICROSECONDS if ttl is None else min(ttl, FAR // MICROSECONDS - 1)
    if entry is None or ttl < 0:
        return dict(NONE)
    if ("hash" in entry) != (rule.alg == "sliding") or "zset" in entry:
        raise SkippedError("a key of another type")
    if rule.alg == "sliding":
        return log(call, dict(entry["hash"]), ttl)
    pattern = {"fixed": r"(\d+)()", "aligned": r"(\d+):(\d+)", "gcra": r"(\d+):?(\d*)"}[rule.alg]
    match = re.fullmatch(pattern, entry["string"])
    if not match:
        raise SkippedError("a key that is no counter")
    first, rest = int(match[1]), match[2]
    if rule.alg == "fixed":
        return NONE | {"n": first, "left": ttl + 1}
    if rule.alg == "aligned":
        ends = first + rule.window // MICROSECONDS - call.time // MICROSECONDS
        return NONE | {"n": int(rest), "left": ends, "rep": [ttl]}
    kind = "own" if rest.startswith(rule.name) else "other" if len(rest) > 29 and rest[0] == "0" else "old"
    part = int((rest[len(rule.name) :] if kind == "own" else "" if kind == "other" else rest) or 0)
    return NONE | {"n": (first - call.time) * rule.limit + part, "left": ttl + 1, "rep": [kind]}


def result(call: Call, rule: Rule, entry: dict[str, Any] | None) -> dict[str, Any]:
    """Translates a key after a call. A value that no counter has is unlike any counter, so the step is illegal."""
    try:
        return counter(call, rule, entry)
    except SkippedError:
        return NONE | {"n": FAR, "left": 1, "log": [[0, -1]]}


def log(call: Call, fields: dict[str, str], ttl: int) -> dict[str, Any]:
    """Translates the log of a sliding window. `rep`: total, age of `last`, misplaced or missing entries."""
    head, tail = int(fields.pop("head", 1)), int(fields.pop("tail", 0))
    total, last = int(fields.pop("total", 0)), int(fields.pop("last", 0))
    entries = []
    for number in range(head, tail + 1):
        match = re.fullmatch(r"(\d+):(\d+)", fields.pop(str(number), ""))
        if match:
            entries.append([clip(call.time - int(match[1])), int(match[2])])
    stray = len(fields) + max(0, tail - head + 1) - len(entries)
    return {"n": 0, "left": ttl + 1, "log": entries, "rep": [total, clip(call.time - last), stray]}
