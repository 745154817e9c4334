"""Tests that wrong calls of the scripts of rate limits are illegal steps of `LimitTrace.tla`."""

from __future__ import annotations

import dataclasses
from typing import Any

from traces import limits
from traces.calls import Call
from traces.packed import pack
from traces.testing import TlcTestCase

NOW = 1_795_305_600_007_500
MS = NOW // 1000
FIXED, SLIDING, GCRA, ALIGNED = (0, 3, 3, 200, 0), (1, 2, 2, 100, 0), (2, 2, 10, 1000, 0), (3, 3, 3, 100, 0)
# The rule in a gcra counter's value: the limit, the window and the capacity.
RULE = "0" + "0000000010" + "00000001000" + "0000002"


def text(value: str, left: int) -> dict[str, Any]:
    """Returns a string key that expires in `left` ms."""
    return {"string": value, "until": MS + left}


def log(head: int, grants: list[tuple[int, int]], left: int, total: int | None = None) -> dict[str, Any]:
    """Returns the log of a sliding window, with `(age, units)` of each entry."""
    units = sum(cost for _, cost in grants) if total is None else total
    fields = {"head": head, "tail": head + len(grants) - 1, "total": units, "last": NOW - grants[-1][0]}
    entries = {head + i: f"{NOW - age}:{cost}" for i, (age, cost) in enumerate(grants)}
    return {"hash": [[str(k), str(v)] for k, v in (fields | entries).items()], "until": MS + left}


def cells(debt: int, left: int) -> dict[str, Any]:
    """Returns a gcra counter that owes `debt` microseconds."""
    return text(f"{NOW + debt}:{RULE}0", left)


def take(rules: list[tuple[int, ...]], before: list[Any], after: list[Any], reply: list[int], mode: int = 0) -> Call:
    """Returns a call that takes one unit from each counter."""
    size = len(rules)
    batch = pack([size, 0, *(number for rule in rules for number in rule), 0, *[0] * size, *[1] * size])
    runs = pack([mode, 1, 0, size, *(number for i in range(size) for number in (i, 1))])
    return Call("take", "redis", NOW, [f"k{i}" for i in range(size)], [batch, runs], pack([NOW, *reply]), before, after)


def call(script: str, arguments: list[int], before: Any, after: Any, reply: Any) -> Call:
    """Returns a call with one key."""
    return Call(script, "redis", NOW, ["k"], [str(argument) for argument in arguments], reply, [before], [after])


FIRST = take([FIXED], [None], [text("1", 199)], [1, 0, 200])
NEXT = take([FIXED], [text("1", 149)], [text("2", 149)], [1, 1, 150])
REFUNDED = take([FIXED], [text("0", 49)], [text("1", 49)], [1, 0, 50])
REFUSED = take([FIXED], [text("3", 49)], [text("3", 49)], [0, 3, 50, 0, 0, 0, 50_000])
BOTH = [text("3", 49), log(1, [(5000, 1)], 90)]
BATCH = take([FIXED, SLIDING], BOTH, BOTH, [0, 3, 50, 1, 95, 0, 0, 0, 0, 50_000, 1, 0])
EACH = take([FIXED, SLIDING], BOTH, [BOTH[0], log(1, [(5000, 1), (0, 1)], 101)],
            [0, 3, 50, 1, 100, 1, 0, 0, 0, 50_000, 1, 0], 1)  # fmt: skip
EXPIRED = take([SLIDING], [log(4, [(100_001, 1), (100_000, 1)], 1)], [log(5, [(100_000, 1), (0, 1)], 101)], [1, 1, 100])
BACK = take([SLIDING], [log(1, [(-40, 1)], 90)], [log(1, [(0, 1), (0, 1)], 101)], [1, 1, 100])
EMPTY = take([SLIDING], [log(1, [(-40, 0)], 90)], [log(1, [(0, 0), (0, 1)], 101)], [1, 0, 100])
CELLS = take([GCRA], [cells(50_000, 50)], [cells(150_000, 150)], [1, 1, 150])
DAY = take([ALIGNED], [None], [text(f"{MS // 100 * 100}:1", 100 - MS % 100)], [1, 0, 100 - MS % 100])
CREDIT = call("refund", [0, 1, MS + 50, 3, 200, 3], text("1", 49), text("0", 49), 1)
LATE = call("refund", [0, 1, MS - 50, 3, 200, 3], text("1", 149), text("1", 149), 0)
GRANT = call("refund", [1, 1, NOW - 9, 2, 100, 2], log(1, [(9, 2), (3, 1)], 90), log(1, [(9, 1), (3, 1)], 90), 1)
RECOVERED = call("refund", [2, 1, NOW + 60_000, 10, 1000, 2], cells(90_000, 90), cells(30_000, 30), 1)
PEEK = call("peek", [0, 3, 3, 200], text("3", 49), text("3", 49), [3, 50, 50_000])
# After a large clock step, the debt has more than 30 bits.
FAR_DEBT = text(f"{NOW + 150_000_000}:{RULE}1", 150)
FAR_PEEK = call("peek", [2, 2, 10, 1000], FAR_DEBT, FAR_DEBT, [3, 151, 151_000])
THROTTLE = call("throttle", [2, 10, 1_000_000, 1], cells(50_000, 50), cells(150_000, 150), [0, 2, 0, -1, 1])
LIMITED = call("throttle", [2, 10, 1_000_000, 1], cells(150_000, 150), cells(150_000, 150), [1, 2, 0, 1, 1])
FULL = {"error": "OOM command not allowed when used memory > 'maxmemory'."}
MEMORY = dataclasses.replace(FIRST, after=[None], reply=FULL)
LEGAL = [FIRST, NEXT, REFUNDED, REFUSED, BATCH, EACH, EXPIRED, BACK, EMPTY, CELLS, DAY, CREDIT, LATE, GRANT, RECOVERED,
         PEEK, FAR_PEEK, THROTTLE, LIMITED, MEMORY]  # fmt: skip


def after(right: Call, *keys: Any) -> Call:
    """Returns a call that left other keys."""
    return dataclasses.replace(right, after=list(keys))


def reply(right: Call, *numbers: int) -> Call:
    """Returns a call with another reply in MessagePack."""
    return dataclasses.replace(right, reply=pack([NOW, *numbers]))


ILLEGAL = {
    "a window one ms too long": after(FIRST, text("1", 200)),
    "a call extends the window": after(NEXT, text("2", 199)),
    "a call that is not counted": after(NEXT, text("1", 149)),
    "a usage that includes the call": reply(NEXT, 1, 2, 150),
    "a refunded window begins again": after(REFUNDED, text("1", 199)),
    "a grant above the limit": after(REFUSED, text("4", 49)),
    "a retry-after one ms too early": reply(REFUSED, 0, 3, 50, 0, 0, 0, 49_000),
    "a refusal that should be a grant": dataclasses.replace(NEXT, after=NEXT.before, reply=REFUSED.reply),
    "a batch that takes from one limit": after(BATCH, *EACH.after),
    "independent limits that take nothing": after(EACH, *BATCH.after),
    "an expired entry stays": after(EXPIRED, log(4, [(100_001, 1), (100_000, 1), (0, 1)], 101)),
    "an entry is dropped too early": after(EXPIRED, log(6, [(0, 1)], 101)),
    "entries become one": after(EXPIRED, log(5, [(0, 2)], 101)),
    "a wrong total": after(EXPIRED, log(5, [(100_000, 1), (0, 1)], 101, total=3)),
    "a log that expires before its last entry": after(EXPIRED, log(5, [(100_000, 1), (0, 1)], 99)),
    "an entry stays in the future": after(BACK, log(1, [(-40, 1), (0, 1)], 101)),
    "an empty entry stays in the future": after(EMPTY, log(1, [(-40, 0), (0, 1)], 101)),
    "an arrival time 1 µs too early": after(CELLS, cells(149_999, 150)),
    "a gcra counter that expires too early": after(CELLS, cells(150_000, 149)),
    "another rule in a gcra counter": after(CELLS, text(f"{NOW + 150_000}:{RULE[:-1]}30", 150)),
    "a window that is not aligned": after(DAY, text(f"{MS}:1", 100)),
    "a refund deletes the window": after(CREDIT, None),
    "a refund to another window": dataclasses.replace(LATE, after=[text("0", 149)], reply=1),
    "a refund to another grant": after(GRANT, log(1, [(9, 2), (3, 0)], 90)),
    "a refund of recovered units": after(RECOVERED, None),
    "a credit that the reply denies": dataclasses.replace(CREDIT, reply=0),
    "a look that takes": after(PEEK, text("4", 49)),
    "a look that reports no wait": dataclasses.replace(PEEK, reply=[3, 50, 0]),
    "a throttled call that takes": after(LIMITED, cells(250_000, 250)),
    "a remainder of one too many": dataclasses.replace(THROTTLE, reply=[0, 2, 1, -1, 1]),
    "an error of the script": dataclasses.replace(MEMORY, reply={"error": "ERR user_script:9"}),
    "an error after a change": dataclasses.replace(FIRST, reply={"error": "ERR user_script:9"}),
    "a reply of another shape": dataclasses.replace(CREDIT, reply=[1]),
    "a change without memory": after(MEMORY, text("1", 199)),
}


class LimitSteps(TlcTestCase):
    """Judges steps of rate limits."""

    def test_only_wrong_steps_are_illegal(self) -> None:
        right = {f"legal {i}": call for i, call in enumerate(LEGAL)}
        found = self.verdicts(limits.MODULE, limits.encode, [*right.items(), *ILLEGAL.items()])
        self.assertEqual(found, set(ILLEGAL))
