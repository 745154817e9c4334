"""Calls of the breaker's scripts as steps of the module BreakerTrace."""

from __future__ import annotations

import fractions
import json
import math
from typing import Any

from traces import calls

MODULE = "BreakerTrace"
NAMES = ("sync", "report", "vote", "trip", "half-open", "trial", "outcome", "close", "down", "up", "force")
SCRIPTS = {f"breaker-{name}" for name in NAMES}
# NoEnd of BreakerScripts: a state without an end.
NO_END = -(2**30)
# Times in ms are clipped to this; it leaves room for doubling.
LIMIT = 2**29
# Generations that are farther apart count as this far apart, plus 1. It exceeds a random step.
NEAR = 4096
# A rate must be a fraction with a denominator up to this; the setting 0.05 is 1/20.
DENOMINATORS = 1000

Record = dict[str, Any]


class Names:
    """Names for strings, in order of appearance: n1, n2, …; the empty string keeps its own."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {"": ""}

    def __getitem__(self, text: str) -> str:
        return self.names.setdefault(text, f"n{len(self.names)}")


def clipped(milliseconds: int) -> int:
    """Returns a time that TLC can double."""
    return max(-LIMIT, min(LIMIT, milliseconds))


NO_HASH: Record = {"st": "closed", "cause": "none", "gen": 0, "left": NO_END, "forced": "no", "fleft": NO_END}
NO_HASH |= {"streak": 0, "since": 0, "trips": 0, "lapse": 0, "by": "", "reason": ""}
NO_HASH["sums"] = {"calls": 0, "failed": 0, "slow": 0, "run": 0}
NO_KEYS: Record = {"h": NO_HASH, "ok": 0, "digest": "", "old": False, "trials": set(), "votes": set()}
NO_KEYS["window"] = {"gen": 0, "left": 0, "slices": set()}


def changed(new: Record, old: Record) -> Record:
    """Returns the fields of a record that differ from those of another record."""
    return {name: value for name, value in new.items() if value != old.get(name)}


def differing(keys: Record, others: Record) -> Record:
    """Returns the fields of keys that differ, and those of their hash."""
    return changed({**keys, "h": changed(keys["h"], others["h"])}, {**others, "h": {}})


class Translation:
    """Translates one call."""

    def __init__(self, call: calls.Call) -> None:
        if any(entry is not None and kind not in entry for entry, kind in zip(call.before, KINDS, strict=False)):
            raise calls.SkippedError("other software uses the key for another type")
        self.call = call
        self.json: Record = json.loads(call.args[0].encode("latin-1"))
        self.now = call.time // 1000
        self.sidecars, self.authors, self.reasons, self.digests, self.permits = (Names() for _ in range(5))
        self.generations = self.ranked_generations()
        self.starts = self.ranked_starts()

    # Numbers

    def ranked_generations(self) -> dict[int, int]:
        """Returns each generation relative to the clock. Small differences stay, larger ones count as equal."""
        found = {self.call.time}
        for keys in (self.call.before, self.call.after):
            for index in (0, 2):
                found.add(int(fields(keys[index]).get("generation", "0")))
        found |= {int(self.json[name]) for name in ("expect", "at_least") if name in self.json}
        if "known" in self.json:
            found.add(int(self.json["known"]["generation"]))
        ranks: dict[int, int] = {}
        last = 0
        for generation in sorted(found):
            ranks[generation] = ranks[last] + min(generation - last, NEAR + 1) if ranks else 0
            last = generation
        return {generation: rank - ranks[self.call.time] for generation, rank in ranks.items()}

    def ranked_starts(self) -> dict[int, int]:
        """Returns the starts of states relative to now. Only the order of those before now counts."""
        found = [fields(keys[0]) for keys in (self.call.before, self.call.after)]
        found.append(self.json.get("known", {}))
        starts = {int(hash_.get("since", "0")) for hash_ in found}
        if any(start - self.now >= LIMIT for start in starts):
            raise calls.SkippedError("a clock set back by days, beyond TLC's integers")
        past = sorted((start for start in starts if start < self.now), reverse=True)
        ranks = {start: -1 - rank for rank, start in enumerate(past)}
        return {start: ranks.get(start, clipped(start - self.now)) for start in starts}

    def end(self, text: str) -> int:
        """Returns the time that remains until an end; "0" is no end."""
        return clipped(int(text) - self.now) if text != "0" else NO_END

    # Keys

    def hash(self, found: Record) -> Record:
        """Returns the breaker's hash without successes and configuration."""
        return {
            "st": found.get("state", "closed"),
            "cause": found.get("cause") or "none",
            "gen": self.generations[int(found.get("generation", "0"))],
            "left": self.end(found.get("until", "0")),
            "forced": found.get("forced") or "no",
            "fleft": self.end(found.get("forced_until", "0")),
            "streak": int(found.get("streak", "0")),
            "since": self.starts[int(found.get("since", "0"))],
            "trips": int(found.get("trips", "0")),
            "lapse": int(found.get("lapse", "0")),
            "by": self.authors[found.get("by", "")],
            "reason": self.reasons[found.get("reason", "")],
            "sums": {
                "calls": int(found.get("calls", "0")),
                "failed": thousandths(found.get("failure_rate", "0")),
                "slow": thousandths(found.get("slow_rate", "0")),
                "run": int(found.get("consecutive", "0")),
            },
        }

    def window(self, keys: list[Record | None]) -> Record:
        """Returns the window. Only reports read it, so that its text is shortened for other scripts."""
        entry = keys[2]
        if entry is None:
            return {"gen": 0, "left": 0, "slices": set()}
        if self.call.script != "breaker-report":
            return {"gen": 0, "left": 1 if entry == self.call.before[2] else 2, "slices": set()}
        found = fields(entry)
        generation = self.generations[int(found.pop("generation", "0"))]
        slices = {(int(number) - self.first_slice(), *map(int, sums.split(":"))) for number, sums in found.items()}
        return {"gen": generation, "left": self.left(entry), "slices": slices}

    def first_slice(self) -> int:
        """Returns the number of the slice that counts as 0: the current one in a window of time."""
        if "window" in self.json:
            width = max(1, self.json["window"] // self.json["slices"])
            return int(self.now // width)
        found = fields(self.call.before[2])
        # The window begins at 0 again if it is of another generation.
        if found.get("generation") != fields(self.call.before[0]).get("generation", "0"):
            return 0
        return max((int(number) for number in found if number != "generation"), default=0)

    def left(self, entry: Record, score: str | None = None) -> int:
        """Returns for how many ms a key or one of its members lasts; the longest time for a key without an end."""
        key = self.call.remaining(entry)
        if key is None:
            return LIMIT
        return clipped(key if score is None else min(key, int(float(score)) - self.now))

    def keys(self, keys: list[Record | None]) -> Record:
        """Returns the keys."""
        found = fields(keys[0])
        trials = {(self.permits[name], self.left(keys[3] or {}, score)) for name, score in members(keys[3])}
        votes = set()
        for member, score in members(keys[4]):
            cause, _, sidecar = member.partition(":")
            votes.add((cause, self.sidecars[sidecar], max(0, self.left(keys[4] or {}, score))))
        return {
            "h": self.hash(found),
            "ok": int(found.get("successes", "0")),
            "digest": self.digests[found.get("configuration", "")],
            "window": self.window(keys),
            "old": keys[5] is not None,
            # A permit that has lapsed can still be reported, until the next one is taken.
            "trials": {(name, left if left > 0 else -1) for name, left in trials},
            "votes": {vote for vote in votes if vote[2] > 0},
        }

    # The call

    def arguments(self, after: Record) -> Record:
        """Returns the call."""
        found: Record = {"random": math.floor(self.json["random"] * 1000)}
        for name in ("expect", "at_least"):
            if name in self.json:
                found[name] = self.generations[int(self.json[name])]
        for name in ("until", "until_to", "forced_until", "forced_until_to"):
            if name in self.json:
                found[name] = self.end(self.json[name])
        for name in ("open_min", "open_max", "retry_after", "pause", "longest", "lapse", "lifetime", "for"):
            if name in self.json:
                found[name] = clipped(self.json[name])
        same = "over forced_over cause outcome permits reporters quorum seconds trial state declares"
        same += " calls failures slow trailing slices window window_calls minimum consecutive judge"
        found |= {name: self.json[name] for name in same.split() if name in self.json}
        found |= {name: fraction(self.json[name]) for name in ("failure_rate", "slow_rate") if name in self.json}
        found["by"] = self.authors[self.json["by"]]
        found["origin"] = self.sidecars[self.json["origin"]]
        if "reason" in self.json:
            found["reason"] = self.reasons[self.json["reason"]]
        if "id" in self.json:
            found["id"] = self.permits[self.json["id"]]
        if "configuration" in self.json:
            found["digest"] = self.digests[self.json["configuration"]]
        if "known" in self.json:
            found |= {"knows": True, "known": self.hash(self.json["known"])}
        shown = {name: after["h"]["sums"][name] for name in ("failed", "slow") if self.call.script == "breaker-report"}
        if after["h"]["st"] == "open" and self.call.script in OPENING:
            shown["open"] = after["h"]["left"]
        if shown:
            found["shown"] = shown
        return found

    def step(self) -> str:
        """Returns the step."""
        reply = self.call.reply
        is_refused = calls.is_refused(self.call, KINDS)
        before, after = self.keys(self.call.before), self.keys(self.call.after)
        step: Record = {"script": self.call.script, "c": self.arguments(after)}
        shown = {"before": differing(before, NO_KEYS), "after": differing(after, before)}
        step |= {name: keys for name, keys in shown.items() if keys}
        if is_refused:
            step["failed"] = True
        elif self.call.has_reply:
            result, at, shown_fields = reply
            found = dict(zip(shown_fields[::2], shown_fields[1::2], strict=True))
            if not isinstance(result, int):
                raise calls.UnexpectedError(self.call.script)
            step["reply"] = {
                "result": result,
                "at": clipped(at - self.now),
                "shows_hash": found == fields(self.call.after[0]),
            }
        return calls.tla(step)


# The types of the keys: 1 the breaker, 2 its history, 3 the window, 4 trials, 5 votes, 6 the other kind of window.
KINDS = ("hash", "stream", "hash", "zset", "zset", "hash")
OPENING = {"breaker-report", "breaker-vote", "breaker-trip", "breaker-outcome"}


def fields(entry: Record | None) -> dict[str, str]:
    """Returns the fields of a hash."""
    return dict(entry["hash"]) if entry else {}


def members(entry: Record | None) -> list[tuple[str, str]]:
    """Returns the members of a sorted set, with their scores."""
    return [(member, score) for member, score in entry["zset"]] if entry else []


def thousandths(text: str) -> int:
    """Returns a rate in thousandths."""
    rate = float(text)
    if not math.isfinite(rate):
        raise calls.SkippedError("a window without calls has no rates")
    return round(rate * 1000)


def fraction(rate: float) -> list[int]:
    """Returns a rate as a fraction that a comparison with it cannot tell from it."""
    found = fractions.Fraction(rate).limit_denominator(DENOMINATORS)
    if float(found) != rate:
        raise calls.SkippedError("a rate is no fraction with a small denominator")
    return [found.numerator, found.denominator]


def encode(call: calls.Call) -> str:
    """Translates a call of one of the breaker's scripts."""
    return Translation(call).step()
