"""Translates calls of `quota.lua` into steps of `LimitQuotaTrace.tla`."""

from __future__ import annotations

from typing import Any

from traces.calls import Call, SkippedError, is_refused, tla
from traces.counters import FAR, clip
from traces.limits import failed
from traces.packed import unpack

MODULE = "LimitQuotaTrace"
SCRIPTS = {"quota"}
# Simulated worlds have no Envoy, which alone asks for quotas.
IS_SIMULATED = False
FREE = {"q": 0, "left": 0, "prev": 0, "prevLeft": 0, "need": 0}


def entry(text: str, now: int) -> dict[str, int]:
    """Translates the entry of a data plane. Times that have passed are 0."""
    numbers = [int(number) for number in text.split(" ")]
    if len(numbers) != len(FREE):
        raise SkippedError("a key that has no quotas")
    quota, expiry, previous, previous_expiry, need = numbers
    left, previous_left = (clip(at - now, 0) for at in (expiry, previous_expiry))
    return dict(zip(FREE, (quota, left, previous, previous_left, need), strict=True))


def fields(value: dict[str, Any] | None) -> dict[str, str]:
    """Returns the fields of a bucket's hash."""
    if value is not None and "hash" not in value:
        raise SkippedError("a key of another type")
    return dict(value["hash"]) if value else {}


def encode(call: Call) -> str:
    """Translates a call into a step of `LimitQuotaTrace.tla`."""
    if is_refused(call, ["hash"] * len(call.keys)):
        return failed(call)
    if len(set(call.keys)) < len(call.keys):
        raise SkippedError("a key twice")
    retention, most, *numbers = unpack(call.args[0])
    now = call.time // 1000
    parts = []
    for i, (name, old, new) in enumerate(zip(call.args[1:], call.before, call.after, strict=True)):
        before, after = fields(old), fields(new)
        # Equal demands are in the order of the names, byte by byte.
        names = sorted({name, *before, *after})
        states = [[entry(es[n], now) if n in es else FREE for n in names] for es in (before, after)]
        left = [FAR if value is None else call.remaining(value) for value in (old, new)]
        limit, need = numbers[2 * i : 2 * i + 2]
        if max(limit, need, retention, *(n for es in states for e in es for n in e.values())) > FAR:
            raise SkippedError("numbers of more than 31 bits")
        part = {"p": names.index(name) + 1, "need": need, "limit": limit, "before": states[0], "after": states[1]}
        parts.append(part | {"left": [-1 if ms is None else ms for ms in left]})
    step: dict[str, object] = {"script": call.script, "retention": retention, "most": clip(most), "parts": parts}
    return tla(step | ({"reply": unpack(call.reply)} if call.has_reply else {}))
