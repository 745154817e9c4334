"""Translates the calls of the scripts of shared locks and semaphores into steps of GroupTrace.tla."""

from __future__ import annotations

import re
from typing import Any

from traces import locks
from traces.calls import Call, ElsewhereError, SkippedError, UnexpectedError, is_refused
from traces.lockkeys import (
    CLAIM,
    GROUP,
    KINDS,
    RECHECK,
    STATE_KINDS,
    TICKET,
    Fence,
    Name,
    Time,
    clock,
    described,
    dropped,
    fence,
    holder,
    leaves,
    left,
    named,
    state,
    value,
    write,
)

MODULE = "GroupTrace"
SCRIPTS = {
    "share",
    "share-renew",
    "fenced-share-renew",
    "share-release",
    "fenced-share-release",
    "acquire",
    "release",
    "fenced-release",
    "renew",
    "fenced-renew",
    "leave",
    "break",
    "inspect",
    "lease-state",
}
# The scripts that treat a free lock as a group's, too.
ALWAYS = {"share", "share-renew", "fenced-share-renew", "share-release", "fenced-share-release"}
# A token or ticket of the version before tickets had a mark.
OLD = re.compile(r"[0-9a-f]{12}/(?!ticket/)")


def told(call: Call, record: str) -> dict[str, Any]:
    """Translates the record of the last notification of the first waiter."""
    match = re.fullmatch(r"(told|seen) (\d+) (.*)", record)
    if not match:
        return {"who": Name(), "how": "none", "left": Time(0)}
    elapsed = call.time // 1000 - int(match[2])
    remaining = (CLAIM if match[1] == "told" else RECHECK) - elapsed
    # After the clock was set back, a notification has no effect, like a check that is long ago.
    how = match[1] if elapsed >= 0 else "seen"
    return {"who": Name(match[3]), "how": how, "left": Time(max(0, remaining) if elapsed >= 0 else 0)}


def group_state(call: Call, entries: list[dict[str, Any] | None], shown: bool) -> dict[str, Any]:
    """Translates the keys 1 lock, 2 fence, 3 queue, 4 holders, 5 grants."""
    entries = [*entries, *[None] * 5][:5]
    base = state(call, entries)
    if any(not TICKET.match(ticket) for ticket in base["queue"]):
        raise SkippedError("a ticket of the previous version")
    held, name = str(base.pop("holder")), Name()
    members: dict[str, str] = dict(value(entries[3], "zset") or [])
    grants: dict[str, str] = dict(value(entries[4], "hash") or [])
    group = GROUP.match(held)
    slots = int(group[1] or 0) if group else 0
    if OLD.match(held) and base["left"] <= CLAIM:
        raise SkippedError("a holder that may be a ticket of the previous version")
    if group and shown:
        if held not in members:
            raise SkippedError("a group that is not in its own set")
        slots = int(members.pop(held))
    if group:
        name, kind, who = Name(held), "group", Name()
    else:
        members, grants = {}, {}
        kind, who = ("offer" if TICKET.match(held) else "one") if held else "free", Name(held)
    now = call.time // 1000
    live = [[Name(member), Time(int(end) - now)] for member, end in members.items() if int(end) > now]
    lapsed = {member for member, end in members.items() if int(end) <= now}
    record = grants.pop("", "")
    return {
        **base,
        "kind": kind,
        "who": who,
        "slots": slots,
        "name": name,
        "told": told(call, record),
        "in": [pair for pair in live if not TICKET.match(str(pair[0]))],
        "turn": [pair for pair in live if TICKET.match(str(pair[0]))],
        "grants": [[Name(token), fence(number)] for token, number in sorted(grants.items()) if token not in lapsed],
        "even": all(left(call, entry) == base["left"] for entry in entries[3:5] if entry),
    }


def states(call: Call, entries: slice) -> dict[str, Any]:
    """Translates the states of one lock before and after a call."""
    before, after = call.before[entries], call.after[entries]
    shown = len(before) >= 5
    return {"d": group_state(call, before, shown), "to": group_state(call, after, shown)}


def share(call: Call) -> dict[str, Any]:
    """Translates a call of share.lua."""
    token, ttl, _, candidate, ticket, waits, others, slots, name = [*call.args, ""][:9]
    arguments = {
        "token": Name(token),
        "ttl": Time(ttl),
        "take": candidate != "own",
        "ticket": Name(ticket),
        "more": bool(ticket) and others != "0",
        "slots": int(slots),
        "name": Name(name),
        "waits": Time(waits or 0),
        "others": Time(others or 0),
        "dead": dropped(call, ticket, bool(ticket) and others != "0"),
    }
    return {"op": "share", "a": arguments}


def shared(call: Call) -> dict[str, Any]:
    """Translates the reply of share.lua or acquire.lua."""
    match call.reply:
        case [0, int(remaining), int(position)]:
            return {"is": "held", "left": Time(remaining), "at": position}
        case [1 | 2 as kind, int(number), str(name), int(after)]:
            step = {"is": "granted" if kind == 1 else "extended", "fence": Fence(number), "name": Name(name)}
            return {**step, "after": Time(after)}
        case [3, int(slots)]:
            return {"is": "mode", "slots": slots}
    raise UnexpectedError(call.script)


def share_renew(call: Call) -> dict[str, Any]:
    """Translates a call of share-renew.lua or fenced-share-renew.lua."""
    return {**locks.renew(call), "op": "share-renew"}


def share_release(call: Call) -> dict[str, Any]:
    """Translates a call of share-release.lua or fenced-share-release.lua."""
    only = fence(call.args[-1]) if call.script.startswith("fenced-") else Fence(0)
    return {"op": "share-release", "a": {"token": Name(call.args[0]), "only": only, "dead": dropped(call, "", False)}}


def leave(call: Call) -> dict[str, Any]:
    """Translates a call of leave.lua."""
    ticket = call.args[0]
    ends = dict((call.before[3] or {}).get("zset", []))
    listed = ticket in ends and int(ends[ticket]) <= call.time // 1000
    return {"op": "leave", "a": {"ticket": Name(ticket), "listed": listed, "dead": dropped(call, ticket, False)}}


# For each script the function that translates its arguments, and the names of its replies.
ENCODERS: dict[str, Any] = {
    "acquire": (lambda call: {**locks.acquire(call), "op": "acquire"}, None),
    "share": (share, None),
    "share-renew": (share_renew, {1: "renewed", 0: "missing"}),
    "fenced-share-renew": (share_renew, {1: "renewed", 0: "missing"}),
    "share-release": (share_release, {1: "ended", 0: "missing"}),
    "fenced-share-release": (share_release, {1: "ended", 0: "missing"}),
    "leave": (leave, {1: "passed", 0: "left"}),
    "break": (locks.break_lock, {1: "broken", 0: "missing"}),
    "renew": (lambda _: {"op": "renew", "a": {"reads": True}}, {-1: "group"}),
    "fenced-renew": (lambda _: {"op": "renew", "a": {"reads": True}}, {-1: "group"}),
    "release": (lambda _: {"op": "release", "a": {"reads": True}}, {-1: "group"}),
    "fenced-release": (lambda _: {"op": "release", "a": {"reads": True}}, {-1: "group"}),
}


def with_names(step: dict[str, Any]) -> dict[str, Any]:
    """Adds the names that occur in a step."""
    return {**step, "names": frozenset(leaf for leaf in leaves(step) if isinstance(leaf, Name) and leaf)}


def inspected(call: Call, index: int, replies: list[Any] | None) -> dict[str, Any]:
    """Translates the description by inspect.lua of the lock with this index."""
    step = {**states(call, slice(6 * index, 6 * index + 5)), "a": {"most": int(call.args[1])}}
    if replies is not None:
        name, remaining, last, _, held, slots, leases, waiting = replies[index]
        step["r"] = {
            "name": Name(name),
            "left": Time(remaining),
            "fence": fence(last),
            "held": int(held),
            "slots": int(slots),
            "leases": [
                [Name(token), Time(end), fence(number or None)]
                for token, end, number in zip(leases[::3], leases[1::3], leases[2::3], strict=True)
            ],
            "waiting": [Name(ticket) for ticket in waiting[::2]],
        }
    return with_names(step)


def lease_state(call: Call, index: int, replies: list[Any] | None) -> dict[str, Any]:
    """Translates the reply of lease-state.lua about the grant with this index."""
    first = 4 * index
    token, number = call.args[2 * index : 2 * index + 2]

    def seen(entries: list[dict[str, Any] | None]) -> dict[str, Any]:
        lock, counter, holders, grants = entries[first : first + 4]
        return group_state(call, [lock, counter, None, holders, grants], True)

    step: dict[str, Any] = {
        "d": seen(call.before),
        "to": seen(call.after),
        "a": {"token": Name(token), "only": fence(number)},
    }
    if replies is not None:
        step["r"] = {"is": "state", "left": Time(replies[index])}
    return with_names(step)


def encode(call: Call) -> str:
    """Translates a call into a step."""
    if call.script in {"inspect", "lease-state"}:
        read, kinds = (inspected, KINDS) if call.script == "inspect" else (lease_state, STATE_KINDS)
        found = [i for i in range(len(call.keys) // len(kinds)) if GROUP.match(holder(call.before[len(kinds) * i]))]
        if not found:
            raise ElsewhereError
        replies = described(call, kinds)
        all_read = [read(call, index, replies) for index in found]
        return write({"op": call.script, "all": all_read, "now": Fence(call.time)})
    if call.script not in ALWAYS and not GROUP.match(holder(call.before[0])):
        raise ElsewhereError
    if (call.time - call.slack) // 1000 != call.time // 1000:
        raise SkippedError("a recording of a call in which the millisecond changed")
    if call.slack and call.after[1] != call.before[1] and int((call.after[1] or {}).get("string", 0)) > call.time:
        raise SkippedError("a recording of a call that minted several fences while the clock ran")
    arguments, replies = ENCODERS[call.script]
    step = {**states(call, slice(0, 5)), **arguments(call), **clock(call, None)}
    if call.has_reply:
        if is_refused(call, KINDS):
            step["r"] = {"is": "error"}
        else:
            step["r"] = named(replies, call.reply) if replies else shared(call)
    return write(with_names(step))
