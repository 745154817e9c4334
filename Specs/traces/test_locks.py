"""Tests that wrong calls of the scripts of exclusive locks are illegal steps of `LockTrace.tla`.

Each call here is correct, or differs in one point from a correct one. One run of TLC judges all steps.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from traces import locks
from traces.calls import Call, SkippedError
from traces.lockkeys import FENCE_LIFETIME
from traces.testing import TlcTestCase

# Redis's clock in microseconds and ms, and the last fence.
NOW = 1_795_305_600_000_000
MS = NOW // 1000
LAST = NOW - 5_000_000
UNKNOWN = "0" * 16
# The IDs of two sidecars, and the ticket of each.
MINE, OTHERS = "8a77a6443c1c", "e60b5da958fa"
TICKET, RIVAL = f"{MINE}/ticket/{'1' * 32}", f"{OTHERS}/ticket/{'2' * 32}"
THIRD = f"{OTHERS}/ticket/{'3' * 32}"
Entry = dict[str, Any] | None


def lock(token: str, left: int) -> Entry:
    """Returns a lock that a token holds for `left` ms."""
    return {"string": token, "until": MS + left}


def counter(number: int, named: int | None = None) -> Entry:
    """Returns the key of a fence, which lasts for a lifetime after the moment that it (or `named`) names."""
    return {"string": str(number), "until": (named or number) // 1000 + FENCE_LIFETIME}


def queue(*tickets: str, left: int = 10_000) -> Entry:
    """Returns a queue of tickets."""
    return {"zset": [[ticket, str(NOW - 1000 + i)] for i, ticket in enumerate(tickets)], "until": MS + left}


def call(script: str, args: list[str], reply: Any, before: list[Entry], after: list[Entry]) -> Call:
    """Returns a call of a script that sent no message and got no error."""
    keys = [f"key-{i}" for i in range(len(before))]
    return Call(script, "redis", NOW, keys, args, reply, before, after, published=[], refused=[])


def sent(found: Call, *messages: tuple[str, int | None], what: str = "turn") -> Call:
    """Returns the call with messages to tickets, each with its number of receivers."""
    texts = [(json.dumps({"v": 1, "lock": "x", "ticket": ticket, "what": what}), n) for ticket, n in messages]
    return dataclasses.replace(found, published=[("wake:", text, receivers) for text, receivers in texts])


def refused(found: Call, *errors: str) -> Call:
    """Returns the call with errors of its commands, which the script handled."""
    return dataclasses.replace(found, refused=list(errors))


def by_monitor(calls: Iterable[tuple[str, Call]]) -> list[tuple[str, Call]]:
    """Returns the correct calls as MONITOR shows them: without replies, receivers and errors."""
    found = []
    for text, item in calls:
        if not text.startswith("not: ") and not isinstance(item.reply, dict) and not item.refused:
            messages: Any = [(channel, message, None) for channel, message, _ in item.published or []]
            seen = dataclasses.replace(item, reply=None, has_reply=False, published=messages, refused=None)
            found.append((f"{text}, by MONITOR", seen))
    return found


def rejected(calls: Iterable[tuple[str, Call]]) -> set[str]:
    """Returns the descriptions of the wrong calls."""
    return {text.removeprefix("not: ") for text, _ in calls if text.startswith("not: ")}


def acquire() -> list[tuple[str, Call]]:
    """Returns calls of acquire.lua."""
    free, minted = [None, counter(LAST), None], counter(NOW)
    take = ["a", "5000", "wake:", UNKNOWN]
    granted = [lock("a", 5000), minted, None]
    known = [*take[:3], str(NOW - 100)]
    recent = [None, counter(NOW - 50), None]
    wait = [*take, "take", TICKET, "10000", "0"]
    held, queued = lock("b", 3000), [lock("b", 3000), counter(LAST), queue(RIVAL)]
    offered = [None, counter(LAST), queue(RIVAL)]
    turn = [lock(TICKET, 200), counter(LAST), None]
    own = [lock("a", 8000), counter(LAST), None]
    return [
        ("takes a free lock", call("acquire", take, [1, NOW], free, granted)),
        ("not: takes a held lock", call("acquire", take, [1, NOW], [held, *free[1:]], granted)),
        ("not: the fence stays", call("acquire", take, [1, LAST], free, [granted[0], counter(LAST), None])),
        ("not: the reply has another fence", call("acquire", take, [1, NOW + 1], free, granted)),
        ("not: the lease is shorter", call("acquire", take, [1, NOW], free, [lock("a", 4000), minted, None])),
        ("not: the lease has no end", call("acquire", take, [1, NOW], free, [{"string": "a"}, minted, None])),
        ("not: the fence lapses early", call("acquire", take, [1, NOW], free, [granted[0], counter(NOW, LAST), None])),
        ("counts", call("acquire", known, NOW - 49, recent, [granted[0], counter(NOW - 49, NOW - 50), None])),
        (
            "not: counts by two",
            call("acquire", known, NOW - 48, recent, [granted[0], counter(NOW - 48, NOW - 50), None]),
        ),
        (
            "not: counts without a clock",
            call("acquire", take, NOW - 49, recent, [granted[0], counter(NOW - 49, NOW - 50), None]),
        ),
        (
            "not: counts far behind the clock",
            call("acquire", known, LAST + 1, free, [granted[0], counter(LAST + 1, LAST), None]),
        ),
        (
            "starts from the clock after a jump back",
            call(
                "acquire",
                take,
                [1, NOW + 8001],
                [None, counter(NOW + 8000), None],
                [granted[0], counter(NOW + 8001), None],
            ),
        ),
        (
            "not: follows a clock that jumped back",
            call("acquire", take, [1, NOW], [None, counter(NOW + 8000), None], granted),
        ),
        ("queues last", call("acquire", wait, [0, 3000, 1], queued, [*queued[:2], queue(RIVAL, TICKET)])),
        ("not: queues first", call("acquire", wait, [0, 3000, 0], queued, [*queued[:2], queue(TICKET, RIVAL)])),
        ("not: does not queue", call("acquire", wait, [0, 3000, 1], queued, queued)),
        ("not: drops the ticket ahead", call("acquire", wait, [0, 3000, 0], queued, [*queued[:2], queue(TICKET)])),
        (
            "not: the queue lapses before its ticket",
            call(
                "acquire",
                wait,
                [0, 3000, 1],
                [*queued[:2], queue(RIVAL, left=20)],
                [*queued[:2], queue(RIVAL, TICKET, left=20)],
            ),
        ),
        (
            "offers a free lock to the first ticket",
            call("acquire", take, [0, 300, -1], offered, [lock(RIVAL, 300), minted, None]),
        ),
        ("not: overtakes the first ticket", call("acquire", take, [1, NOW], offered, [granted[0], minted, offered[2]])),
        ("not: offers it for longer", call("acquire", take, [0, 3000, -1], offered, [lock(RIVAL, 3000), minted, None])),
        ("claims its turn", call("acquire", wait, [1, NOW], turn, granted)),
        (
            "not: claims its turn with the last fence",
            call("acquire", wait, [1, LAST], turn, [granted[0], counter(LAST), None]),
        ),
        ("not: claims another's turn", call("acquire", wait, [1, NOW], [lock(RIVAL, 200), *turn[1:]], granted)),
        ("extends an owner's lease", call("acquire", [*take, "own"], [2, LAST], own, own)),
        (
            "not: shortens an owner's lease",
            call("acquire", [*take, "own"], [2, LAST], own, [lock("a", 5000), *own[1:]]),
        ),
        ("not: takes a free lock as its owner", call("acquire", [*take, "own"], [1, NOW], free, granted)),
        ("fails", call("acquire", take, {"error": "OOM"}, free, free)),
        ("not: fails, but keeps the lock", call("acquire", take, {"error": "OOM"}, free, [granted[0], *free[1:]])),
        ("not: fails by itself", call("acquire", take, {"error": "ERR user_script:9"}, free, free)),
        ("not: replies with a text", call("acquire", take, "granted", free, granted)),
    ]


def renew() -> list[tuple[str, Call]]:
    """Returns calls of renew.lua, fenced-renew.lua and lease-state.lua."""
    before, after = [lock("a", 1000), counter(LAST)], [lock("a", 5000), counter(LAST)]
    state = [lock("a", 1000), counter(LAST), None, None]
    return [
        ("renews", call("renew", ["a", "5000"], 1, before[:1], after[:1])),
        ("shortens", call("renew", ["a", "1000"], 1, after[:1], before[:1])),
        ("not: shortens, although it watches", call("renew", ["a", "1000", "watch"], 1, after[:1], before[:1])),
        ("not: does not renew", call("renew", ["a", "5000"], 1, before[:1], before[:1])),
        ("not: replies with a list", call("renew", ["a", "5000"], [1], before[:1], after[:1])),
        ("not: renews another's lease", call("renew", ["b", "5000"], 1, before[:1], after[:1])),
        ("not: revives a lease", call("renew", ["a", "5000"], 1, [None], after[:1])),
        ("renews the grant", call("fenced-renew", ["a", "5000", str(LAST)], 1, before, after)),
        ("not: renews another grant", call("fenced-renew", ["a", "5000", str(LAST - 1)], 1, before, after)),
        ("reads a lease", call("lease-state", ["a", str(LAST)], [1000], state, state)),
        ("not: reads another grant's lease", call("lease-state", ["a", str(LAST - 1)], [1000], state, state)),
        (
            "not: renews as it reads",
            call("lease-state", ["a", str(LAST)], [1000], state, [lock("a", 5000), *state[1:]]),
        ),
    ]


def release() -> list[tuple[str, Call]]:
    """Returns calls of release.lua, fenced-release.lua, leave.lua and break.lua."""
    args = ["a", "wake:", MINE]
    passing = [*args, "c", "4000", "over", TICKET, "10000", "0"]
    alone, waited = [lock("a", 900), counter(LAST), None], [lock("a", 900), counter(LAST), queue(RIVAL, THIRD)]
    handed = [lock(RIVAL, 300), counter(NOW), queue(THIRD)]
    passed = [lock("c", 4000), counter(NOW), None]
    turn = [lock(TICKET, 200), counter(LAST), queue(RIVAL, THIRD), None, None]
    event = ["wake:", "events", "{", "}"]
    return [
        ("frees", call("release", args, 1, alone, [None, *alone[1:]])),
        ("not: frees another's lock", call("release", ["b", *args[1:]], 1, alone, [None, *alone[1:]])),
        ("not: keeps the lock", call("release", args, 1, alone, alone)),
        ("not: frees another grant", call("fenced-release", [*args, str(LAST - 1)], 1, alone, [None, *alone[1:]])),
        ("hands over", call("release", args, 1, waited, handed)),
        (
            "drops the ticket of a dead sidecar",
            sent(call("release", args, 1, waited, [lock(THIRD, 300), counter(NOW), None]), (RIVAL, 0), (THIRD, 1)),
        ),
        (
            "not: drops the ticket of a sidecar that listens",
            sent(call("release", args, 1, waited, [lock(THIRD, 300), counter(NOW), None]), (RIVAL, 1), (THIRD, 1)),
        ),
        (
            "not: drops a ticket after another message",
            sent(call("release", args, 1, waited, [lock(THIRD, 300), counter(NOW), None]), (RIVAL, 0), what="first"),
        ),
        (
            "drops the tickets of dead sidecars",
            sent(call("release", args, 1, waited, [None, counter(LAST), None]), (RIVAL, 0), (THIRD, 0)),
        ),
        ("not: deletes the queue", call("release", args, 1, waited, [None, counter(LAST), None])),
        ("not: forgets the waiters", call("release", args, 1, waited, [None, *waited[1:]])),
        (
            "not: hands over past the first",
            call("release", args, 1, waited, [lock(THIRD, 300), counter(NOW), queue(RIVAL)]),
        ),
        ("not: loses a ticket behind", call("release", args, 1, waited, [*handed[:2], None])),
        ("not: hands over without a fence", call("release", args, 1, waited, [handed[0], counter(LAST), handed[2]])),
        ("passes to its next waiter", call("release", passing, [2, NOW, 1], alone, passed)),
        ("not: passes past the first ticket", call("release", passing, [2, NOW, 1], waited, [*passed[:2], waited[2]])),
        ("queues behind the others", call("release", passing, [1, 0], waited, [*handed[:2], queue(THIRD, TICKET)])),
        ("not: forgets its own waiter", call("release", passing, [1, 0], waited, handed)),
        ("not: says that it is first", call("release", passing, [1, 1], waited, [*handed[:2], queue(THIRD, TICKET)])),
        (
            "lacks memory for the fence",
            refused(call("release", passing, [1, 1], alone, [None, *alone[1:]]), "OOM command not allowed"),
        ),
        ("not: passes nothing on", call("release", passing, [1, 1], alone, [None, *alone[1:]])),
        (
            "not: passes nothing on after another error",
            refused(call("release", passing, [1, 1], alone, [None, *alone[1:]]), "ERR no such key"),
        ),
        ("gives up its turn", call("leave", [TICKET, "wake:", MINE], 1, turn, [*handed, None, None])),
        (
            "not: ends another's turn",
            call("leave", [THIRD, "wake:", OTHERS], 1, turn, [lock(RIVAL, 300), counter(NOW), *[None] * 3]),
        ),
        ("not: leaves the lock to nobody", call("leave", [TICKET, "wake:", MINE], 1, turn, [None, *turn[1:]])),
        ("breaks", call("break", [*event, str(LAST)], 1, [*waited, None, None], [*handed, None, None])),
        (
            "not: breaks another grant",
            call("break", [*event, str(LAST - 1)], 1, [*waited, None, None], [*handed, None, None]),
        ),
        (
            "not: breaks a lock without an end",
            call("break", [*event, ""], 1, [{"string": "a"}, *alone[1:], None, None], [None, *alone[1:], None, None]),
        ),
    ]


def wrong() -> set[str]:
    """Returns the descriptions of the wrong calls of exclusive locks."""
    return rejected([*acquire(), *renew(), *release()])


class LockSteps(TlcTestCase):
    """Judges steps of exclusive locks."""

    def test_only_wrong_steps_are_illegal(self) -> None:
        calls = [*acquire(), *renew(), *release()]
        found = self.verdicts(locks.MODULE, locks.encode, [*calls, *by_monitor(calls)])
        self.assertEqual(found, {text for text, _ in calls if text.startswith("not: ")})

    def test_calls_that_the_recording_does_not_explain_are_skipped(self) -> None:
        steps = dict(release())
        memory = dataclasses.replace(steps["lacks memory for the fence"], refused=None)
        dead = dataclasses.replace(steps["drops the ticket of a dead sidecar"], published=None)
        for item in (memory, dead):
            with self.subTest(item=item), self.assertRaises(SkippedError):
                locks.encode(item)
