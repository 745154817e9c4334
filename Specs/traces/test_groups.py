"""Tests that wrong calls of the scripts of shared locks and semaphores are illegal steps of `GroupTrace.tla`."""

from __future__ import annotations

from typing import Any

from traces import groups
from traces.calls import Call
from traces.lockkeys import CLAIM, RECHECK
from traces.test_locks import (
    LAST,
    MINE,
    MS,
    NOW,
    OTHERS,
    RIVAL,
    THIRD,
    TICKET,
    Entry,
    by_monitor,
    call,
    counter,
    lock,
    queue,
    rejected,
    sent,
)
from traces.testing import TlcTestCase

READERS, PERMITS = f"shared/{'a' * 32}", f"permits-2/{'b' * 32}"
# The fences of earlier grants.
FENCES = {"r": LAST, "s": LAST - 1, "p": LAST, "q": LAST - 1}


def group(
    name: str, slots: int, leases: dict[str, int], fence: int = LAST, waiting: Entry = None, told: str = "", **new: int
) -> list[Entry]:
    """Returns the keys of a group with the ms left of its leases and turns. `new`: the fences of new grants."""
    end = max(leases.values())
    members = sorted(leases, key=lambda member: leases[member])
    fences = {**FENCES, **new}
    grants = [[member, str(fences[member])] for member in members if member in fences]
    record = [["", f"{told.split()[0]} {MS - int(told.split()[1])} {told.split()[2]}"]] if told else []
    holders: Any = {
        "zset": [[name, str(slots)], *([member, str(MS + leases[member])] for member in members)],
        "until": MS + end,
    }
    hashed: Entry = {"hash": [*grants, *record], "until": MS + end} if grants or record else None
    return [lock(name, end), counter(fence), waiting, holders, hashed]


def readers() -> list[tuple[str, Call]]:
    """Returns calls for a lock that readers hold."""
    free: list[Entry] = [None, counter(LAST), None, None, None]
    take = ["n", "5000", "wake:", "take", "", "", "", "0", READERS]
    wait = [*take[:4], TICKET, "10000", "0", "0", READERS]
    started = group(READERS, 0, {"n": 5000}, NOW, n=NOW)
    both, joined = group(READERS, 0, {"r": 900}), group(READERS, 0, {"r": 900, "n": 5000}, NOW, n=NOW)
    writer = group(READERS, 0, {"r": 900}, waiting=queue(RIVAL))
    asked = group(READERS, 0, {"r": 900}, waiting=queue(RIVAL), told=f"told 0 {RIVAL}")
    late = group(READERS, 0, {"r": 900}, waiting=queue(RIVAL), told=f"told {CLAIM} {RIVAL}")
    behind = group(READERS, 0, {"r": 900}, waiting=queue(RIVAL, TICKET), told=f"told 0 {RIVAL}")
    first = group(READERS, 0, {"r": 900}, waiting=queue(TICKET), told=f"told 10 {TICKET}")
    seen = group(READERS, 0, {"r": 900}, waiting=queue(TICKET), told=f"seen 0 {TICKET}")
    write = ["w", "5000", "wake:", "0" * 16, "take", TICKET, "10000", "0"]
    two = group(READERS, 0, {"r": 900, "s": 2000})
    offered = [lock(RIVAL, CLAIM), counter(NOW), None, None, None]
    unlinked = ["w", "wake:", MINE]
    return [
        ("starts a group", call("share", take, [1, NOW, READERS, -1], free, started)),
        (
            "not: starts a group beside a holder",
            call("share", take, [1, NOW, READERS, -1], [lock("w", 900), *free[1:]], started),
        ),
        (
            "not: starts a group past the first ticket",
            call(
                "share",
                take,
                [1, NOW, READERS, -1],
                [None, free[1], queue(RIVAL), None, None],
                [*started[:2], queue(RIVAL), *started[3:]],
            ),
        ),
        ("joins", call("share", take, [1, NOW, READERS, -1], both, joined)),
        ("not: ends the others' leases", call("share", take, [1, NOW, READERS, -1], both, started)),
        (
            "not: joins without a fence",
            call("share", take, [1, LAST, READERS, -1], both, group(READERS, 0, {"r": 900, "n": 5000}, n=LAST)),
        ),
        ("not: keeps the old end", call("share", take, [1, NOW, READERS, -1], both, [lock(READERS, 900), *joined[1:]])),
        ("waits behind a writer", call("share", take, [0, CLAIM, -1], writer, asked)),
        (
            "not: joins past a writer",
            call("share", take, [1, NOW, READERS, -1], writer, [*joined[:2], queue(RIVAL), *joined[3:]]),
        ),
        ("not: does not notify the writer", call("share", take, [0, 900, -1], writer, writer)),
        ("not: waits for a writer that does not check", call("share", take, [0, CLAIM, -1], late, late)),
        (
            "drops a writer that does not check",
            call(
                "share",
                take,
                [1, NOW, READERS, -1],
                late,
                group(READERS, 0, {"r": 900, "n": 5000}, NOW, told=f"told {CLAIM} {RIVAL}", n=NOW),
            ),
        ),
        ("queues behind a writer", call("share", wait, [0, CLAIM, 1], asked, behind)),
        (
            "not: queues ahead of a writer",
            call(
                "share",
                wait,
                [0, CLAIM, 0],
                asked,
                group(READERS, 0, {"r": 900}, waiting=queue(TICKET, RIVAL), told=f"told 0 {RIVAL}"),
            ),
        ),
        ("a writer checks", call("acquire", write, [0, 900, 0], first, seen)),
        ("not: a writer's check is lost", call("acquire", write, [0, 900, 0], first, first)),
        (
            "not: a writer takes the readers' lock",
            call("acquire", write, [1, NOW], first, [lock("w", 5000), counter(NOW), None, None, None]),
        ),
        ("renews", call("share-renew", ["r", "5000"], 1, both, group(READERS, 0, {"r": 5000}))),
        (
            "not: renews without the group's end",
            call("share-renew", ["r", "5000"], 1, both, [both[0], *group(READERS, 0, {"r": 5000})[1:]]),
        ),
        (
            "not: renews another grant",
            call("fenced-share-renew", ["r", "5000", str(LAST - 7)], 1, both, group(READERS, 0, {"r": 5000})),
        ),
        ("not: renews a lease that lapsed", call("share-renew", ["s", "5000"], 1, both, two)),
        ("ends one lease", call("share-release", ["s", "wake:", MINE], 1, two, both)),
        ("not: ends the whole group", call("share-release", ["s", "wake:", MINE], 1, two, free)),
        (
            "not: ends another's lease",
            call("share-release", ["s", "wake:", MINE], 1, two, group(READERS, 0, {"s": 2000})),
        ),
        (
            "not: leaves the grant",
            call(
                "share-release",
                ["s", "wake:", MINE],
                1,
                two,
                [*both[:4], {"hash": [["r", str(LAST)], ["s", str(LAST - 1)]], "until": MS + 900}],
            ),
        ),
        ("hands over after the last lease", call("share-release", ["r", "wake:", MINE], 1, writer, offered)),
        (
            "not: forgets the waiter",
            call("share-release", ["r", "wake:", MINE], 1, writer, [None, *writer[1:3], None, None]),
        ),
        (
            "drops the ticket of a dead writer",
            sent(
                call("share", take, [1, NOW, READERS, -1], writer, joined),
                (RIVAL, 0),
                what="look",
            ),
        ),
        ("not: drops the ticket of a writer", call("share", take, [1, NOW, READERS, -1], writer, joined)),
        ("a group's member has other scripts", call("release", unlinked, -1, both[:3], both[:3])),
        ("not: release ends a group", call("release", unlinked, 1, both[:3], [None, *both[1:3]])),
        (
            "leaves",
            call("leave", [RIVAL, "wake:", OTHERS], 0, asked, group(READERS, 0, {"r": 900}, told=f"told 0 {RIVAL}")),
        ),
        ("not: does not leave", call("leave", [RIVAL, "wake:", OTHERS], 0, asked, asked)),
        ("breaks", call("break", ["wake:", "events", "{", "}", str(LAST)], 1, writer, offered)),
        ("not: breaks another grant", call("break", ["wake:", "events", "{", "}", str(LAST - 7)], 1, writer, offered)),
    ]


def semaphores() -> list[tuple[str, Call]]:
    """Returns calls for a semaphore with two slots."""
    take = ["n", "5000", "wake:", "take", "", "", "", "2", PERMITS]
    wait = [*take[:4], TICKET, "10000", "0", "2", PERMITS]
    one, full = group(PERMITS, 2, {"p": 900}), group(PERMITS, 2, {"p": 900, "q": 2000})
    joined = group(PERMITS, 2, {"p": 900, "n": 5000}, NOW, n=NOW)
    over = group(PERMITS, 2, {"p": 900, "q": 2000, "n": 5000}, NOW, n=NOW)
    queued = group(PERMITS, 2, {"p": 900, "q": 2000}, waiting=queue(RIVAL, THIRD))
    reserved = group(PERMITS, 2, {"p": 900, RIVAL: CLAIM}, NOW, waiting=queue(THIRD))
    turn = group(PERMITS, 2, {"p": 900, TICKET: 200})
    claimed = [*joined]
    passed = group(PERMITS, 2, {"p": 900, RIVAL: CLAIM}, NOW, waiting=queue(THIRD))
    turned = group(PERMITS, 2, {"p": 900, TICKET: 200}, waiting=queue(RIVAL, THIRD))
    state = [*one[:2], *one[3:]]
    found = [PERMITS, 900, str(LAST), 0, 1, 2, ["p", 900, str(LAST)], []]
    shown = [*one, None]
    both: list[Any] = [PERMITS, 2000, str(LAST), 0, 2, 2, ["p", 900, str(LAST), "q", 2000, str(LAST - 1)], []]
    waited = [*turned, None]
    turns: list[Any] = [PERMITS, 900, str(LAST), 2, 2, 2, [TICKET, 200, "", "p", 900, str(LAST)]]
    few, many = [MINE, "1", "wake:", "10000"], [MINE, "100", "wake:", "10000"]
    return [
        ("takes a slot", call("share", take, [1, NOW, PERMITS, 900], one, joined)),
        ("not: takes a third slot", call("share", take, [1, NOW, PERMITS, 900], full, over)),
        ("is refused", call("share", take, [0, 900, -1], full, full)),
        ("not: is refused although there is room", call("share", take, [0, 900, -1], one, one)),
        ("not: names another end", call("share", take, [0, 2000, -1], full, full)),
        ("claims its slot", call("share", wait, [1, NOW, PERMITS, 900], turn, claimed)),
        (
            "not: keeps its slot and takes another",
            call(
                "share",
                wait,
                [1, NOW, PERMITS, 200],
                turn,
                group(PERMITS, 2, {"p": 900, TICKET: 200, "n": 5000}, NOW, n=NOW),
            ),
        ),
        ("reserves the freed slot", call("share-release", ["q", "wake:", MINE], 1, queued, reserved)),
        (
            "not: frees a slot for nobody",
            call(
                "share-release",
                ["q", "wake:", MINE],
                1,
                queued,
                group(PERMITS, 2, {"p": 900}, waiting=queue(RIVAL, THIRD)),
            ),
        ),
        (
            "not: reserves it for the second ticket",
            call(
                "share-release",
                ["q", "wake:", MINE],
                1,
                queued,
                group(PERMITS, 2, {"p": 900, THIRD: CLAIM}, NOW, waiting=queue(RIVAL)),
            ),
        ),
        (
            "not: reserves it for longer",
            call(
                "share-release",
                ["q", "wake:", MINE],
                1,
                queued,
                group(PERMITS, 2, {"p": 900, RIVAL: RECHECK}, NOW, waiting=queue(THIRD)),
            ),
        ),
        ("passes its turn on", call("leave", [TICKET, "wake:", MINE], 1, turned, passed)),
        (
            "not: gives its turn to nobody",
            call(
                "leave", [TICKET, "wake:", MINE], 1, turned, group(PERMITS, 2, {"p": 900}, waiting=queue(RIVAL, THIRD))
            ),
        ),
        ("readers are refused", call("share", [*take[:7], "0", READERS], [3, 2], one, one)),
        ("not: readers join permits", call("share", [*take[:7], "0", READERS], [1, NOW, PERMITS, -1], one, joined)),
        ("a writer is refused", call("acquire", ["w", "5000", "wake:", "0" * 16], [3, 2], one[:3], one[:3])),
        ("reads a lease", call("lease-state", ["p", str(LAST)], [900], state, state)),
        ("not: reads another grant's lease", call("lease-state", ["p", str(LAST - 7)], [900], state, state)),
        ("inspects", call("inspect", [MINE, "100", "wake:", "10000"], [found], shown, shown)),
        ("inspects two leases", call("inspect", many, [both], [*full, None], [*full, None])),
        (
            "not: lists a lease twice",
            call("inspect", many, [[*both[:6], ["p", 900, str(LAST)] * 2, []]], [*full, None], [*full, None]),
        ),
        (
            "lists the lease that ends first",
            call("inspect", few, [[*both[:6], both[6][:3], []]], [*full, None], [*full, None]),
        ),
        (
            "not: lists the lease that ends last",
            call("inspect", few, [[*both[:6], both[6][3:], []]], [*full, None], [*full, None]),
        ),
        (
            "lists the turn and then the queue",
            call("inspect", many, [[*turns, [TICKET, "", RIVAL, "", THIRD, ""]]], waited, waited),
        ),
        (
            "not: lists the queue in another order",
            call("inspect", many, [[*turns, [TICKET, "", THIRD, "", RIVAL, ""]]], waited, waited),
        ),
        (
            "lists the first ticket",
            call("inspect", few, [[*turns[:6], turns[6][:3], [TICKET, ""]]], waited, waited),
        ),
        (
            "not: lists the last ticket",
            call("inspect", few, [[*turns[:6], turns[6][:3], [THIRD, ""]]], waited, waited),
        ),
        (
            "not: misses a lease",
            call("inspect", [MINE, "100", "wake:", "10000"], [[*found[:4], 0, 2, [], []]], shown, shown),
        ),
        (
            "not: drops a lease as it reads",
            call(
                "inspect",
                [MINE, "100", "wake:", "10000"],
                [found],
                shown,
                [*shown[:3], {"zset": [[PERMITS, "2"]], "until": MS + 900}, *shown[4:]],
            ),
        ),
        ("fails", call("share", take, {"error": "OOM"}, one, one)),
        ("not: fails by itself", call("share", take, {"error": "ERR user_script:9"}, one, one)),
        ("not: fails, but keeps the slot", call("share", take, {"error": "OOM"}, one, joined)),
    ]


def wrong() -> set[str]:
    """Returns the descriptions of the wrong calls of groups."""
    return rejected([*readers(), *semaphores()])


class GroupSteps(TlcTestCase):
    """Judges steps of shared locks and semaphores."""

    def test_only_wrong_steps_are_illegal(self) -> None:
        calls = [*readers(), *semaphores()]
        found = self.verdicts(groups.MODULE, groups.encode, [*calls, *by_monitor(calls)])
        self.assertEqual(found, {text for text, _ in calls if text.startswith("not: ")})
