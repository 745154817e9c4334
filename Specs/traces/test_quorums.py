"""Tests that QuorumTrace.tla accepts legal calls of the quorum's scripts, and finds the faults of others."""

from __future__ import annotations

from typing import Any

from traces import quorums
from traces.calls import Call, SkippedError
from traces.testing import TlcTestCase

NOW = 1_795_305_600_000_000
MS = NOW // 1000
OLD, MINTED = NOW - 900_001, NOW - 5_000  # a recorded fence is odd, a minted number even
DAY = 86_400_000
Entry = dict[str, Any] | None


def lock(token: str, left: int) -> Entry:
    return {"string": token, "until": MS + left}


def number(value: int, left: int = DAY) -> Entry:
    return {"string": str(value), "until": MS + left}


def call(script: str, args: str, before: list[Entry], after: list[Entry], reply: Any = ...) -> Call:
    keys = ["lock", "fence"][: len(before)]
    value = None if reply is ... else reply
    return Call(
        script,
        "q",
        NOW,
        keys,
        args.split(" ") if args or script == "quorum-break" else [],
        value,
        before,
        after,
        reply is not ...,
    )


def restore(fence: int, ttl: int, found: int, elapsed: int, window: int) -> str:
    return f"me {fence} {ttl} {found} {MS - elapsed} {window}"


ACQUIRE, FENCE, RELEASE = "quorum-acquire", "quorum-fence", "quorum-release"
RENEW, BREAK, INSPECT = "quorum-renew", "quorum-break", "quorum-inspect"
FREE: list[Entry] = [None, number(OLD, 9000)]
MINE: list[Entry] = [lock("me", 400), number(MINTED)]
HELD: list[Entry] = [lock("me", 400), number(OLD)]
OTHER: list[Entry] = [lock("other", 400), number(OLD)]
LATE = NOW + 2_000_001  # a fence of a server whose clock is 2 s ahead

LEGAL = {
    "granted": call(ACQUIRE, "me 500 take", FREE, [lock("me", 500), number(NOW)], [1, NOW]),
    "granted above a number ahead of the clock": call(
        ACQUIRE, "me 500 take", [None, number(LATE)], [lock("me", 500), number(LATE + 1, DAY + 2001)], [1, LATE + 1]
    ),
    "not taken": call(ACQUIRE, "me 500 own", FREE, FREE, [0, -2, 1]),
    "extended": call(ACQUIRE, "me 500 own", HELD, [lock("me", 500), HELD[1]], [2, OLD]),
    "not shortened": call(ACQUIRE, "me 100 take", HELD, HELD, [2, OLD]),
    "extended without a number": call(
        ACQUIRE, "me 500 take", [HELD[0], None], [lock("me", 500), number(NOW)], [2, NOW]
    ),
    "held": call(ACQUIRE, "me 500 take", OTHER, OTHER, [0, 400, 1]),
    "no reply": call(ACQUIRE, "me 500 take", OTHER, OTHER),
    "out of memory": call(ACQUIRE, "me 500 take", FREE, FREE, {"error": "OOM"}),
    "recorded": call(FENCE, f"me {MINTED + 1} 500 {MINTED}", MINE, [MINE[0], number(MINTED + 1)], MINTED + 1),
    "a later number stays": call(FENCE, f"me {OLD - 2} 500 {OLD - 8}", HELD, HELD, OLD),
    "restored": call(FENCE, restore(OLD, 500, 0, 30, 100), [None, None], [lock("me", 470), number(OLD)], OLD),
    "restored too late": call(FENCE, restore(OLD, 500, 0, 101, 100), [None, None], [None, None], 0),
    "not restored after the clock was set back": call(FENCE, restore(OLD, 500, 0, -1, 100), [None] * 2, [None] * 2, 0),
    "occupied": call(FENCE, restore(OLD, 500, 0, 30, 100), [OTHER[0], MINE[1]], [OTHER[0], MINE[1]], -1),
    "released": call(RELEASE, f"me {OLD}", HELD, [None, HELD[1]], 1),
    "released without a number": call(RELEASE, f"me {OLD}", [HELD[0], None], [None, None], 1),
    "recorded, so not given back": call(RELEASE, "me unrecorded", HELD, HELD, 0),
    "given back": call(RELEASE, "me unrecorded", MINE, [None, MINE[1]], 1),
    "renewed": call(RENEW, f"me 300 {OLD}", HELD, [lock("me", 300), HELD[1]], [1, OLD, MS]),
    "renewed, and the number": call(
        RENEW, "me 300", [HELD[0], number(OLD, 1000)], [lock("me", 300), number(OLD)], [1, OLD, MS]
    ),
    "another lease": call(RENEW, f"me 300 {OLD - 2}", HELD, HELD, [0, OLD, MS]),
    "broken": call(BREAK, "other", OTHER[:1], [None], MS),
    "a key that does not expire": call(BREAK, "me", [{"string": "me"}], [{"string": "me"}], 0),
    "inspected": call(INSPECT, "", OTHER, OTHER, ["other", 400, str(OLD)]),
}  # fmt: skip
ILLEGAL = {
    "a stolen lock": call(ACQUIRE, "me 500 take", OTHER, [lock("me", 500), number(NOW)], [1, NOW]),
    "taken by its former owner": call(ACQUIRE, "me 500 own", FREE, [lock("me", 500), number(NOW)], [1, NOW]),
    "a number that does not rise": call(ACQUIRE, "me 500 take", FREE, [lock("me", 500), FREE[1]], [1, OLD]),
    "a number below the clock": call(
        ACQUIRE, "me 500 take", [None, None], [lock("me", 500), number(MINTED)], [1, MINTED]
    ),
    "an odd number": call(ACQUIRE, "me 500 take", FREE, [lock("me", 500), number(NOW + 1)], [1, NOW + 1]),
    "a number that lapses before the lease": call(
        ACQUIRE, "me 500 take", FREE, [lock("me", 500), number(NOW, 499)], [1, NOW]
    ),
    "a number that lapses before the clock reaches it": call(
        ACQUIRE, "me 500 take", [None, number(LATE)], [lock("me", 500), number(LATE + 1, 2000)], [1, LATE + 1]
    ),
    "a shortened lease": call(ACQUIRE, "me 100 take", HELD, [lock("me", 100), HELD[1]], [2, OLD]),
    "recorded, but said to be unrecorded": call(ACQUIRE, "me 500 take", OTHER, OTHER, [0, 400, 0]),
    "an error of the script": call(ACQUIRE, "me 500 take", FREE, FREE, {"error": "ERR user_script:9"}),
    "a reply of another shape": call(ACQUIRE, "me 500 take", FREE, FREE, 7),
    "an error after a change": call(ACQUIRE, "me 500 take", FREE, [lock("me", 500), FREE[1]], {"error": "OOM"}),
    "a fence of a lost lease": call(FENCE, f"me {OLD} 500 0", [None, None], [None, number(OLD)], OLD),
    "a fence below a later one": call(FENCE, f"me {OLD - 2} 500 {OLD - 8}", HELD, [HELD[0], number(OLD - 2)], OLD - 2),
    "restored for too long": call(
        FENCE, restore(OLD, 500, 0, 30, 100), [None, None], [lock("me", 500), number(OLD)], OLD
    ),
    "restored over another": call(
        FENCE, restore(OLD, 500, 0, 30, 100), [lock("other", 9), None], [lock("me", 470), number(OLD)], OLD
    ),
    "restored after its window": call(
        FENCE, restore(OLD, 500, 0, 101, 100), [None, None], [lock("me", 399), number(OLD)], OLD
    ),
    "another's lease released": call(RELEASE, "me", OTHER, [None, OTHER[1]], 1),
    "a recorded hold given back": call(RELEASE, "me unrecorded", HELD, [None, HELD[1]], 1),
    "a later lease released": call(RELEASE, f"me {OLD - 2}", HELD, [None, HELD[1]], 1),
    "released with its number": call(RELEASE, "me", HELD, [None, None], 1),
    "another's lease renewed": call(RENEW, "me 900", OTHER, [lock("other", 900), OTHER[1]], [1, OLD, MS]),
    "renewed, and the lock taken": call(RENEW, "me 900", FREE, [lock("me", 900), number(OLD)], [1, OLD, MS]),
    "a stale clock": call(RENEW, "me 300", HELD, [lock("me", 300), HELD[1]], [1, OLD, MS - 1]),
    "another's lease broken": call(BREAK, "me", OTHER[:1], [None], MS),
    "a foreign key deleted": call(BREAK, "", [{"string": "job"}], [None], MS),
    "changed by an inspection": call(INSPECT, "", HELD, [lock("me", 401), HELD[1]], ["me", 400, str(OLD)]),
}  # fmt: skip


class QuorumSteps(TlcTestCase):
    """Judges steps of quorum locks."""

    def test_only_wrong_steps_are_illegal(self) -> None:
        found = self.verdicts(quorums.MODULE, quorums.encode, [*LEGAL.items(), *ILLEGAL.items()])
        self.assertEqual(found, set(ILLEGAL))

    def test_equal_steps_have_equal_text(self) -> None:
        other = call(ACQUIRE, "you 700 take", [lock("x", 31), number(OLD - 40)], [lock("x", 31), number(OLD - 40)])
        self.assertEqual(quorums.encode(other), quorums.encode(LEGAL["no reply"]))

    def test_foreign_keys_are_skipped(self) -> None:
        cases: list[list[Entry]] = [[{"hash": []}, None], [None, {"string": "x"}]]
        for entries in cases:
            with self.subTest(entries=entries), self.assertRaises(SkippedError):
                quorums.encode(call(ACQUIRE, "me 500 take", entries, entries))
