"""The common part of the encoders of locks: keys as states, and the values of a step as small ones.

The rules of locks only compare times, fences and names, and count fences up. So a step keeps the order of its times and
of its fences, and small differences, but not the values: equal steps become equal text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from traces.calls import Call, SkippedError, UnexpectedError, is_refused, tla

# The constants of the scripts in ms, which stay as they are; see LockScripts.swift.
CLAIM, RECHECK, FENCE_LIFETIME = 300, 5000, 86_400_000
# The slack of fence-counter.lua, in microseconds.
SLACK = 100_000
MAX_EXACT = 2**53
NO_CLOCK = "0000000000000000"
TICKET = re.compile(r"[0-9a-f]{12}/ticket/")
GROUP = re.compile(r"shared/|permits-(\d+)/")
# The types of a lock's keys: 1 lock, 2 fence, 3 queue, 4 holders, 5 grants, 6 counts; and of those of lease-state.lua.
KINDS = ("string", "string", "zset", "zset", "hash", "hash")
STATE_KINDS = ("string", "string", "zset", "hash")
# The messages after which a script drops a ticket if they have no receiver; see locks.lua and groups.lua.
DROPPING = {"turn", "look"}


class Time(int):
    """A time in ms."""


class Fence(int):
    """A fence, or a reading of the clock in microseconds. 0: none."""


class Name(str):
    """A token, a ticket or a group's name. The empty one stands for none."""


def axis(values: set[int], fixed: set[int], most: int) -> dict[int, int]:
    """Maps values to smaller ones in the same order: differences up to `most` and the fixed values stay."""
    fixed = fixed | {value for value in values if any(0 < place - value <= most for place in fixed)}
    places: dict[int, int] = {}
    last = place = 0
    for value in sorted(values | fixed):
        place = value if value in fixed else place + min(value - last, most)
        places[value] = place
        last = value
    return places


def leaves(value: Any) -> list[Any]:
    """Returns the leaves of a tree in their order."""
    if isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, frozenset):
        value = sorted(value)
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


def write(step: dict[str, Any]) -> str:
    """Writes a step with small times and fences, and with names in the order of their appearance."""
    found = leaves(step)
    times = axis(
        {leaf for leaf in found if isinstance(leaf, Time) and leaf >= 0}, {0, CLAIM, RECHECK, FENCE_LIFETIME}, 2
    )
    fences = axis({leaf for leaf in found if isinstance(leaf, Fence)}, {0}, 50)
    names = {
        name: f"n{index}" for index, name in enumerate(dict.fromkeys(n for n in found if isinstance(n, Name) and n))
    }

    def small(value: Any) -> Any:
        match value:
            case dict():
                return {name: small(item) for name, item in value.items()}
            case list():
                return [small(item) for item in value]
            case frozenset():
                return frozenset(frozenset(small(item)) for item in value)
            case Time():
                # Negative times are signs such as "no expiry".
                return times[value] if value >= 0 else max(int(value), -3)
            case Fence():
                return fences[value]
            case Name():
                # A name is a set, because the module compares names with Free, which is the empty set.
                return {names[value]} if value else set()
            case _:
                return value

    return tla(small(step))


def fence(text: str | None) -> Fence:
    """Parses a fence. Raises SkippedError for what no script writes."""
    if text is None:
        return Fence(0)
    if not re.fullmatch(r"[1-9]\d*", text) or int(text) >= MAX_EXACT:
        raise SkippedError("other software set the fence")
    return Fence(int(text))


def value(entry: dict[str, Any] | None, kind: str) -> Any:
    """Returns the value of a key if it has the type that the scripts use."""
    if entry is None:
        return None
    if kind not in entry:
        raise SkippedError("other software uses the key for another type")
    return entry[kind]


def left(call: Call, entry: dict[str, Any] | None) -> Time:
    """Returns the time for which a key lasts: 0 if it does not exist, -1 if it does not expire."""
    if entry is None:
        return Time(0)
    remaining = call.remaining(entry)
    return Time(-1 if remaining is None else remaining)


def state(call: Call, entries: list[dict[str, Any] | None]) -> dict[str, Any]:
    """Translates the keys 1 lock, 2 fence, 3 queue."""
    lock, counter, queue = entries[:3]
    last = fence(value(counter, "string"))
    keeps = counter["until"] - last // 1000 if counter and "until" in counter else -1
    return {
        "holder": Name(value(lock, "string") or ""),
        "left": left(call, lock),
        "fence": last,
        "queue": [Name(ticket) for ticket, _ in value(queue, "zset") or []],
        "keeps": Time(keeps if counter else 0),
        "lasts": left(call, queue),
    }


def clock(call: Call, said: str | None) -> dict[str, Any]:
    """Translates the clock of Redis and the caller's reading of it."""
    reading = 0 if said in {None, NO_CLOCK} else int(said or 0)
    since = reading - SLACK if reading else 0
    return {"now": Fence(call.time), "said": Fence(reading), "since": Fence(since)}


def padded(args: list[str], defaults: list[str]) -> list[str]:
    """Returns the arguments, and the defaults of those that the call leaves out."""
    return [*args, *defaults[len(args) :]]


def described(call: Call, kinds: tuple[str, ...]) -> list[Any] | None:
    """Returns the reply about each lock of a script that reads several, or None if there is no reply but a refusal.

    `kinds` are the types of the keys of one lock.
    """
    count = len(call.keys) // len(kinds)
    if is_refused(call, kinds * count) or not call.has_reply:
        return None
    if not isinstance(call.reply, list) or len(call.reply) != count:
        raise UnexpectedError(f"{call.script} describes {count} locks")
    return call.reply


def named(names: dict[int, str], reply: Any) -> dict[str, Any]:
    """Translates a reply that is one number."""
    if not isinstance(reply, int) or reply not in names:
        raise UnexpectedError(f"{reply} is none of {list(names)}")
    return {"is": names[reply]}


def members(entry: dict[str, Any] | None) -> set[str]:
    """Returns the members of a sorted set."""
    return {member for member, _ in (entry or {}).get("zset", [])}


def dropped(call: Call, own: str, waits: bool) -> frozenset[Name]:
    """Returns the tickets that a script may have dropped because its message had no receiver.

    own: the ticket of the call, which may leave the queue for other reasons, unless the sidecar `waits` behind it.
    Raises SkippedError if a ticket was dropped, and the recording shows no messages.
    """
    after = {holder(call.after[0])}.union(*(members(entry) for entry in call.after[2:4]))
    lost = (members(call.before[2]) | {own}) - after - {""}
    if call.published is None:
        if lost - {own} or (waits and own in lost):
            raise SkippedError("a ticket was dropped, and the recording shows no messages")
        return frozenset()
    unheard = set()
    for _, text, receivers in call.published:
        try:
            message = json.loads(text)
        except ValueError:
            continue
        if not receivers and isinstance(message, dict) and message.get("what") in DROPPING:
            unheard.add(message.get("ticket"))
    return frozenset(Name(ticket) for ticket in lost & unheard)


def holder(entry: dict[str, Any] | None) -> str:
    """Returns the value of a lock, or an empty string if it is free or not a string."""
    return str((entry or {}).get("string", ""))
