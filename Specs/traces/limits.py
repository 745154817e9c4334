"""Translates calls of the scripts of rate limits into steps of `LimitTrace.tla`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from traces.calls import Call, SkippedError, UnexpectedError, is_error, is_refused, tla
from traces.counters import ALGORITHMS, FAR, MICROSECONDS, Rule, clip, counter, result
from traces.packed import unpack

MODULE = "LimitTrace"
SCRIPTS = {"take", "peek", "refund", "throttle"}
MODES = ["all", "each", "count"]


def failed(call: Call) -> str:
    """Writes the step of a call that Redis refused. Only equality matters: values are named in order of appearance."""
    names: dict[str, str] = {}
    before, after = ([names.setdefault(repr(e), f"v{len(names)}") for e in es] for es in (call.before, call.after))
    return tla({"script": "failed", "before": before, "after": after})


def step(call: Call, rules: list[Rule], most: list[int], reply: object, **parts: object) -> str:
    """Writes a step. `most` is the greatest number of units that the call may take from or return to each counter."""
    if is_refused(call, ["hash" if rule.alg == "sliding" else "string" for rule in rules]):
        return failed(call)
    if call.slack:
        raise SkippedError("a recording without the exact time")
    before = [counter(call, rule, entry) for rule, entry in zip(rules, call.before, strict=True)]
    after = [result(call, rule, entry) for rule, entry in zip(rules, call.after, strict=True)]
    records = []
    for rule, units, old, new in zip(rules, most, before, after, strict=True):
        limit, window = rule.limit, rule.window
        if rule.alg == "gcra":
            if old["rep"] == ["other"]:
                raise SkippedError("a gcra counter that was written under another rule")
            # A common factor of all numbers of limit-ths changes nothing, and keeps them small. Right results have it.
            factor = math.gcd(limit, window, old["n"])
            limit, window, old["n"] = limit // factor, window // factor, old["n"] // factor
            if new["n"] % factor:
                new["rep"] = ["part"]
            # As far as the debt before may go: see below.
            new["n"] = clip(new["n"] // factor, 1 - 2 * FAR, 2 * FAR - 1)
            debt = abs(old["n"]) + (units + rule.cap + 1) * window
            if debt >= 2 * FAR or debt // limit > FAR:
                raise SkippedError("numbers of more than 31 bits")
        elif max(window, rule.cap, old["n"] + units) > FAR:
            raise SkippedError("numbers of more than 31 bits")
        phase = call.time % window if rule.alg == "aligned" else 0
        record = {"limit": limit, "window": window, "cap": rule.cap, "shadow": rule.shadow, "phase": phase}
        records.append({"alg": rule.alg, **record})
    fields = {"script": call.script, "rules": records, "before": before, "after": after, **parts}
    return tla(fields | ({"reply": reply} if call.has_reply else {}))


def take(call: Call) -> str:
    """Translates a batch: see `batch.lua`, `take.lua` and `reply.lua`."""
    if len(set(call.keys)) < len(call.keys):
        raise SkippedError("a key twice")
    batch, arguments, size = unpack(call.args[0]), unpack(call.args[1]), len(call.keys)
    wide, narrow = batch[:2]
    limits = [batch[start : start + 5] for start in range(2, 2 + 5 * (wide + narrow), 5)]
    places = [k if k < wide else wide + (k - wide) % narrow for k in range(size)]
    rules = [
        Rule(ALGORITHMS[kind], cap, limit, window * MICROSECONDS, shadow == 1)
        for kind, cap, limit, window, shadow in (limits[place] for place in places)
    ]
    base, *numbers = batch[2 + 5 * len(limits) :]
    now = call.time // MICROSECONDS
    ends = [clip(base + number - 1 - now) if number else 0 for number in numbers[:size]]
    mode, *rest = arguments
    runs: list[dict[str, Any]] = []
    while rest:
        count, waits, charges, *rest = rest
        pairs = [[rest[2 * i] + 1, rest[2 * i + 1]] for i in range(charges)]
        if len({pair[0] for pair in pairs}) < charges:
            raise SkippedError("a run that charges a counter twice")
        runs.append({"count": count, "waits": waits == 1, "charges": pairs})
        rest = rest[2 * charges :]
    most = [0] * size
    for run in runs:
        for k, cost in run["charges"]:
            most[k - 1] += run["count"] * abs(cost)
    reply = verdict(call, size, runs) if call.has_reply and not is_error(call.reply) else None
    return step(call, rules, most, reply, ends=ends, mode=MODES[mode], asked=numbers[size:], runs=runs)


def verdict(call: Call, size: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Translates the reply of a batch, which says less of what was granted."""
    time, granted, *numbers = unpack(call.reply)
    before, reset, numbers = numbers[: 2 * size : 2], numbers[1 : 2 * size : 2], numbers[2 * size :]
    reply: dict[str, Any] = {"all": granted == 1, "before": before, "reset": reset, "excess": [0] * size, "runs": []}
    if not granted:
        reply["excess"], numbers = numbers[:size], numbers[size:]
        for run in runs:
            length = len(run["charges"])
            fits, *numbers = numbers
            answers = [run["count"], 0] * length
            if not fits:
                answers, numbers = numbers[: 2 * length], numbers[2 * length :]
            reply["runs"].append({"all": fits == 1, "fit": answers[::2], "wait": answers[1::2]})
    if time != call.time or numbers:
        reply["unexpected"] = [clip(time - call.time), len(numbers)]
    return reply


def peek(call: Call) -> str:
    """Translates `peek.lua`."""
    rows = [[int(text) for text in call.args[start : start + 4]] for start in range(0, len(call.args), 4)]
    rules = [Rule(ALGORITHMS[kind], cap, limit, window * MICROSECONDS) for kind, cap, limit, window in rows]
    reply = None
    if call.has_reply and not is_error(call.reply):
        reply = [whole(call.reply[start : start + 3]) for start in range(0, len(call.reply), 3)]
    return step(call, rules, [1] * len(rules), reply)


def whole(numbers: Any) -> list[int]:
    """Returns a list of whole numbers. Raises UnexpectedError if it is anything else."""
    if not isinstance(numbers, list) or any(not isinstance(number, int) for number in numbers):
        raise UnexpectedError(f"{numbers!r} is no list of whole numbers")
    return numbers


def refund(call: Call) -> str:
    """Translates `refund.lua`. A key may have several parts, of which the last one's state is the call's."""
    rules: dict[str, Rule] = {}
    parts: list[list[int]] = []
    for start, key in enumerate(call.keys):
        kind, units, since, limit, window, cap = (int(text) for text in call.args[6 * start : 6 * start + 6])
        rule = Rule(ALGORITHMS[kind], cap, limit, window * MICROSECONDS)
        if rules.setdefault(key, rule) != rule:
            raise SkippedError("a key with two rules")
        # A fixed window's end is in ms, the other times are in microseconds.
        ago = since * (MICROSECONDS if kind == 0 else 1) - call.time
        far = FAR // limit if rule.alg == "gcra" else FAR
        parts.append([list(rules).index(key) + 1, units, clip(ago, -FAR // 2, far)])
    if call.has_reply and not isinstance(call.reply, int | dict):
        raise UnexpectedError("refund")
    most = [sum(units for k, units, _ in parts if k == i + 1) for i in range(len(rules))]
    first = [call.keys.index(key) for key in rules]
    call = dataclasses.replace(call, before=[call.before[i] for i in first], after=[call.after[i] for i in first])
    return step(call, list(rules.values()), most, call.reply, parts=parts)


def throttle(call: Call) -> str:
    """Translates `throttle.lua`."""
    cap, limit, period, units = (int(text) for text in call.args)
    reply = whole(call.reply) if call.has_reply and not is_error(call.reply) else None
    return step(call, [Rule("gcra", cap, limit, period)], [units], reply, n=units)


def encode(call: Call) -> str:
    """Translates a call into a step of `LimitTrace.tla`."""
    return {"take": take, "peek": peek, "refund": refund, "throttle": throttle}[call.script](call)
