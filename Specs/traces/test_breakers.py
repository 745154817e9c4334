"""Tests that wrong calls of the breaker's scripts are illegal steps of `BreakerTrace.tla`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from traces import breakers, calls
from traces.testing import TlcTestCase

NOW = 1_795_305_600_000
CLOCK = NOW * 1000 + 250
OLD = str(CLOCK - 5_000_000)
LATER = str(CLOCK + 5_000_000)
KEYS = [f"b:{{s}}{name}" for name in ("", ":history", ":window:20calls", ":trials", ":votes", ":window")]
COMMON = {"service": "s", "by": "a", "origin": "a", "db": 0, "channel": "events", "history": 1000, "random": 0.5}
OPEN_FOR = {"open_min": 1000, "open_max": 60_000}
CLOSED = {
    "state": "closed", "cause": "trials", "since": str(NOW - 5000), "until": "0", "generation": OLD, "trips": "1",
    "failure_rate": "0", "slow_rate": "0", "calls": "0", "by": "b", "forced": "", "forced_until": "0", "reason": "",
    "streak": "0", "consecutive": "0", "successes": "0", "configuration": "d",
}  # fmt: skip
NEW = {"generation": str(CLOCK), "since": str(NOW), "by": "a"}
OPEN = {**CLOSED, "state": "open", "cause": "failures", "until": str(NOW + 2000), "streak": "1"}
DUE = {**OPEN, "until": str(NOW - 1)}
KNOWS = {"until": DUE["until"], "over": True}
HALF = {**CLOSED, "state": "half_open", "cause": "failures", "streak": "2"}
FORCED = {**CLOSED, "state": "open", "cause": "forced", "forced": "open", "forced_until": str(NOW - 5)}
OUTAGE = {**OPEN, "cause": "outage", "until": str(NOW + 9000), "lapse": "4000", "reason": "down", "streak": "0"}
RULES = {"minimum": 5, "failure_rate": 0.5, "slices": 10, "window_calls": 20, "judge": True, "trailing": 0, "slow": 0}
Members = dict[str, int]


def zset(members: Members) -> dict[str, Any] | None:
    """Returns a sorted set of names with the ms for which they last."""
    if not members:
        return None
    ends = {name: NOW + milliseconds for name, milliseconds in members.items()}
    return {"zset": [[name, str(end)] for name, end in ends.items()], "until": max(ends.values())}


def call(
    script: str, arguments: dict[str, Any], before: dict[str, str], after: dict[str, str], result: int = 1, **keys: Any
) -> calls.Call:
    """Returns a call. keys: trials, votes, window, each as (before, after)."""

    def entries(index: int, found: dict[str, str]) -> list[dict[str, Any] | None]:
        slices = keys.get("window", (None, None))[index]
        window = {"hash": [["generation", OLD], *slices.items()], "until": NOW + 86_400_000} if slices else None
        sets = [zset(keys.get(name, ({}, {}))[index]) for name in ("trials", "votes")]
        return [{"hash": [list(pair) for pair in found.items()]} if found else None, None, window, *sets, None]

    fields = [text for pair in after.items() for text in pair]
    return calls.Call(
        f"breaker-{script}", "redis", CLOCK, KEYS, [json.dumps({**COMMON, **arguments})],
        [result, NOW, fields], entries(0, before), entries(1, after),
    )  # fmt: skip


def opened(before: dict[str, str], milliseconds: int, cause: str = "failures", **fields: str) -> dict[str, str]:
    """Returns a hash after it was opened for these ms."""
    hash_ = {**before, **NEW, "state": "open", "cause": cause, "until": str(NOW + milliseconds), "consecutive": "0"}
    return {**hash_, "trips": str(int(before["trips"]) + 1), "successes": "0", **fields}


def turned(before: dict[str, str], state: str, cause: str, **fields: str) -> dict[str, str]:
    """Returns a hash after its breaker was closed or half-opened."""
    hash_ = {**before, **NEW, "state": state, "cause": cause, "until": "0", "forced": "", "forced_until": "0"}
    zeros = {"streak": "0", "calls": "0", "failure_rate": "0"} if state == "closed" else {}
    return {**hash_, **zeros, "successes": "0", "consecutive": "0", **fields}


def legal() -> dict[str, calls.Call]:
    """Returns calls as the scripts make them."""
    trip = {"expect": OLD, "cause": "limit", **OPEN_FOR}
    report = {"expect": OLD, "calls": 2, "failures": 2, **RULES, **OPEN_FOR}
    sums = {"calls": "6", "failure_rate": "0.500"}
    failing = {"0": "2:1:0", "1": "2:0:0"}
    vote = {"expect": OLD, "cause": "failures", "reporters": 2, "lapse": 3000, **OPEN_FOR}
    trial = {"at_least": OLD, "id": "p", "permits": 2, "lifetime": 2000}
    outcome = {"expect": OLD, "id": "p", "outcome": "ok", "permits": 2, **OPEN_FOR}
    down = {"at_least": OLD, "reason": "down", "lapse": 4000, "quorum": 1}
    in_use: tuple[Members, Members] = ({"p": 900}, {})
    known = {name: text for name, text in OPEN.items() if name != "configuration"}
    mine: tuple[Members, Members] = ({}, {"outage:a": 4000})
    return {
        "trip": call("trip", trip, CLOSED, opened(CLOSED, 30_500, "limit")),
        # The clock is behind the last generation.
        "step": call(
            "trip", {**trip, "expect": LATER}, {**CLOSED, "generation": LATER},
            opened(CLOSED, 30_500, "limit", generation=str(int(LATER) + 501)),
        ),
        "report": call("report", report, CLOSED, opened(CLOSED, 1050, streak="1", **sums), window=(failing, None)),
        "few": call(
            "report", {**report, "minimum": 7}, CLOSED, {**CLOSED, **sums, "slow_rate": "0.000"}, 0,
            window=(failing, {**failing, "2": "2:2:0"}),
        ),
        "vote": call("vote", vote, CLOSED, opened(CLOSED, 1050, streak="1"), votes=({"failures:b": 5}, {})),
        "alone": call("vote", vote, CLOSED, CLOSED, 0, votes=({"slow:a": 5}, {"slow:a": 5, "failures:a": 3000})),
        "restore": call("sync", {"known": known}, {"configuration": "d"}, OPEN),
        "older": call("sync", {"known": {**known, "generation": str(int(OLD) - 1)}}, CLOSED, CLOSED),
        "due": call("half-open", {"expect": OLD, **KNOWS}, DUE, turned(DUE, "half_open", "failures")),
        "not due": call("half-open", {"expect": OLD}, DUE, DUE, 0),
        "trial": call("trial", trial, HALF, HALF, trials=({"q": 500}, {"q": 500, "p": 2000})),
        "no room": call("trial", trial, HALF, HALF, 0, trials=({"q": 500, "r": 9}, {"q": 500, "r": 9})),
        "success": call("outcome", outcome, HALF, {**HALF, "successes": "1"}, trials=in_use),
        "last success": call(
            "outcome", outcome, {**HALF, "successes": "1"}, turned(HALF, "closed", "trials"), trials=in_use
        ),
        "failure": call(
            "outcome", {**outcome, "outcome": "error"}, HALF, opened(HALF, 4200, streak="3"), trials=in_use
        ),
        "forced": call("trip", trip, FORCED, FORCED, 0),
        "forced to its end": call(
            "trip", {**trip, "forced_until": FORCED["forced_until"], "forced_over": True},
            FORCED, turned(FORCED, "closed", "auto"), 0,
        ),
        "force": call(
            "force", {"at_least": "5", "state": "closed", "cause": "forced", "reason": "x", "for": 700}, OPEN,
            turned(OPEN, "closed", "forced", forced="closed", forced_until=str(NOW + 700), reason="x"),
        ),
        "outage": call("down", down, OUTAGE, OUTAGE, votes=mine),
        "lost": call("down", down, {}, {}, 0, votes=mine),
        "up": call(
            "up", {"expect": OLD, "quorum": 1, "trial": True}, OUTAGE, turned(OUTAGE, "half_open", "probe", reason="")
        ),
        "still down": call(
            "up", {"expect": OLD, "quorum": 1}, OUTAGE, OUTAGE, 0, votes=({"outage:b": 9}, {"outage:b": 9})
        ),
        "close": call("close", {"expect": OLD, "cause": "failures", **KNOWS}, DUE, turned(DUE, "closed", "failures")),
        "no memory": dataclasses.replace(call("trip", trip, CLOSED, CLOSED), reply={"error": "OOM"}),
    }  # fmt: skip


def illegal(right: dict[str, calls.Call]) -> dict[str, calls.Call]:
    """Returns calls as scripts with a bug would make them."""

    def wrong(name: str, after: dict[str, str], result: int | None = None, **members: Members) -> calls.Call:
        old = right[name]
        sets = {"trials": 3, "votes": 4}
        entries = [{"hash": [list(pair) for pair in after.items()]}, *old.after[1:]]
        for key, value in members.items():
            entries[sets[key]] = zset(value)
        fields = [text for pair in after.items() for text in pair]
        return dataclasses.replace(old, reply=[old.reply[0] if result is None else result, NOW, fields], after=entries)

    def changed(name: str, **fields: str) -> calls.Call:
        return wrong(name, {**breakers.fields(right[name].after[0]), **fields})

    return {
        "generation that does not rise": changed("trip", generation=OLD),
        "generation that is not the clock": changed("trip", generation=str(CLOCK + 1)),
        "step that is not random": changed("step", generation=str(int(LATER) + 1)),
        "open time that is not drawn": changed("trip", until=str(NOW + 31_000)),
        "streak of a limit": changed("trip", streak="1"),
        "open time that does not double": changed("failure", until=str(NOW + 1050)),
        "streak that does not grow": changed("failure", streak="2"),
        "rate reached without a trip": wrong("report", {**CLOSED, "calls": "6", "failure_rate": "0.500"}, 0),
        "trip below the minimum": wrong("few", opened(CLOSED, 1050, streak="1", calls="6", failure_rate="0.500"), 1),
        "lost calls in the window": changed("few", calls="4"),
        "two votes of one sidecar": wrong("alone", opened(CLOSED, 1050, streak="1"), 1, votes={}),
        "short vote": wrong("alone", CLOSED, votes={"slow:a": 5, "failures:a": 30}),
        "restore from an older copy": wrong("older", {**OPEN, "generation": str(int(OLD) - 1)}),
        "restore without the streak": changed("restore", streak="0"),
        "end by Redis's clock": wrong("not due", turned(DUE, "half_open", "failures"), 1),
        "half-open trial without room": wrong("no room", HALF, 1, trials={"q": 500, "r": 9, "p": 2000}),
        "permit with a short life": wrong("trial", HALF, trials={"q": 500, "p": 200}),
        "permit that is not freed": wrong("success", {**HALF, "successes": "1"}, trials={"p": 900}),
        "outcome of no permit": dataclasses.replace(
            right["success"], before=[right["success"].before[0], None, None, None, None, None]
        ),
        "breaker that opens although forced": wrong(
            "forced", opened(FORCED, 30_500, "limit", forced="", forced_until="0"), 1
        ),
        "forced state that does not end": wrong("forced to its end", FORCED),
        "forced state that ends late": changed("force", forced_until=str(NOW + 7000)),
        "outage that ends early": changed("outage", until=str(NOW + 4000)),
        "outage of a lost breaker": wrong(
            "lost", opened({**CLOSED, "trips": "0"}, 4000, "outage", reason="down", lapse="4000"), 1
        ),
        "end of an outage that a quorum reports": wrong("still down", turned(OUTAGE, "closed", "probe", reason=""), 1),
        "close for another cause": dataclasses.replace(
            right["close"], args=[right["close"].args[0].replace("failures", "limit")]
        ),
        "change without memory": dataclasses.replace(right["no memory"], after=right["trip"].after),
        "error of the script": dataclasses.replace(right["no memory"], reply={"error": "ERR user_script:9"}),
        "reply of another shape": dataclasses.replace(right["trip"], reply=[1, 2]),
        "reply without the change": dataclasses.replace(right["trip"], reply=[0, *right["trip"].reply[1:]]),
    }  # fmt: skip


class BreakerSteps(TlcTestCase):
    """Judges steps of breakers."""

    def test_only_wrong_steps_are_illegal(self) -> None:
        right = legal()
        wrong = illegal(right)
        found = self.verdicts(breakers.MODULE, breakers.encode, [*right.items(), *wrong.items()])
        self.assertEqual(found, set(wrong))
