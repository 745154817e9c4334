"""Translates the calls of the scripts of exclusive locks into steps of LockTrace.tla."""

from __future__ import annotations

from typing import Any

from traces.calls import Call, ElsewhereError, SkippedError, UnexpectedError, is_refused, lacks_memory
from traces.lockkeys import (
    GROUP,
    KINDS,
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
    named,
    padded,
    state,
    write,
)

MODULE = "LockTrace"
SCRIPTS = {
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


def acquire(call: Call) -> dict[str, Any]:
    """Translates a call of acquire.lua."""
    defaults = ["", "", "", "", "take", "", "0", "0"]
    token, ttl, _, said, candidate, ticket, waits, others = padded(call.args, defaults)
    arguments = {
        "token": Name(token),
        "ttl": Time(ttl),
        "take": candidate != "own",
        "owner": True,
        "ticket": Name(ticket),
        "more": others != "0",
        "waits": Time(waits),
        "others": Time(others),
        "dead": dropped(call, ticket, others != "0"),
    }
    return {"op": "acquire", "a": arguments, **clock(call, said)}


def acquired(reply: Any) -> dict[str, Any]:
    """Translates a reply of acquire.lua."""
    match reply:
        case int():
            return {"is": "granted", "fence": Fence(reply)}
        case [0, int(remaining), int(position)]:
            return {"is": "held", "left": Time(remaining), "at": position}
        case [1, int(number)]:
            return {"is": "granted", "fence": Fence(number)}
        case [2, int(number)]:
            return {"is": "extended", "fence": Fence(number)}
    raise UnexpectedError("acquire")


def renew(call: Call) -> dict[str, Any]:
    """Translates a call of renew.lua or fenced-renew.lua."""
    grant = fence(call.args[-1]) if call.script.startswith("fenced-") else Fence(0)
    args = call.args[:-1] if grant else call.args
    arguments = {"token": Name(args[0]), "only": grant, "ttl": Time(args[1]), "keeps": len(args) > 2}
    return {"op": "renew", "a": arguments, **clock(call, None)}


def renewed(reply: Any) -> dict[str, Any]:
    """Translates a reply of renew.lua."""
    return named({1: "renewed", 0: "missing"}, reply)


def release(call: Call) -> dict[str, Any]:
    """Translates a call of release.lua or fenced-release.lua."""
    grant = fence(call.args[-1]) if call.script.startswith("fenced-") else Fence(0)
    args = padded(call.args[:-1] if grant else call.args, ["", "", "", "", "0", "over", "", "0", "0", ""])
    token, _, sidecar, following, ttl, turn, ticket, waits, others, said = args
    is_freed = following != "" and call.after == [None, *call.before[1:]] and holder(call.before[0]) == token
    if is_freed and call.refused is None and (not call.has_reply or call.reply == [1, 1]):
        raise SkippedError("a release that passed nothing on, and the recording does not show whether memory was left")
    known = {ticket for entry in (call.before[2], call.after[2]) for ticket, _ in (entry or {}).get("zset", [])}
    arguments = {
        "token": Name(token),
        "only": grant,
        "next": Name(following),
        "ttl": Time(ttl),
        "ticket": Name(ticket),
        "on": turn == "on",
        "more": others != "0",
        "quick": said != "",
        "waits": Time(waits),
        "others": Time(others),
        "full": is_freed and lacks_memory(call.refused or []),
        "dead": dropped(call, ticket, others != "0"),
        "own": frozenset(Name(other) for other in known | {ticket} if other.startswith(sidecar + "/")),
    }
    return {"op": "release", "a": arguments, **clock(call, said or None)}


def released(reply: Any) -> dict[str, Any]:
    """Translates a reply of release.lua."""
    match reply:
        case 0:
            return {"is": "missing"}
        case 1:
            return {"is": "freed", "first": False}
        case [1, 0 | 1 as first]:
            return {"is": "freed", "first": first == 1}
        case [2, int(number), 0 | 1 as begins]:
            return {"is": "passed", "fence": Fence(number), "begins": begins == 1}
    raise UnexpectedError("release")


def leave(call: Call) -> dict[str, Any]:
    """Translates a call of leave.lua."""
    ticket = call.args[0]
    return {"op": "leave", "a": {"ticket": Name(ticket), "dead": dropped(call, ticket, False)}, **clock(call, None)}


def left(reply: Any) -> dict[str, Any]:
    """Translates a reply of leave.lua."""
    return named({1: "passed", 0: "left"}, reply)


def break_lock(call: Call) -> dict[str, Any]:
    """Translates a call of break.lua."""
    arguments = {"only": fence(call.args[4] or None), "dead": dropped(call, "", False)}
    return {"op": "break", "a": arguments, **clock(call, None)}


def broken(reply: Any) -> dict[str, Any]:
    """Translates a reply of break.lua."""
    return named({1: "broken", 0: "missing"}, reply)


# For each script the functions that translate its arguments and its reply.
ENCODERS = {
    "acquire": (acquire, acquired),
    "renew": (renew, renewed),
    "fenced-renew": (renew, renewed),
    "release": (release, released),
    "fenced-release": (release, released),
    "leave": (leave, left),
    "break": (break_lock, broken),
}


def is_exclusive(entry: dict[str, Any] | None) -> bool:
    """Returns whether no group holds the lock."""
    return not GROUP.match(holder(entry))


def inspected(call: Call, index: int, replies: list[Any] | None) -> dict[str, Any]:
    """Translates the description by inspect.lua of the lock with this index."""
    held = holder(call.before[6 * index])
    step = {
        "a": {"offered": bool(TICKET.match(held)), "most": int(call.args[1])},
        **states(call, slice(6 * index, 6 * index + 5)),
    }
    if replies is not None:
        token, remaining, last, _, _, _, _, waiting = replies[index]
        found = {"holder": Name(token or ""), "left": Time(remaining), "fence": fence(last)}
        step["r"] = {"is": "found", "found": {**found, "waiting": [Name(ticket) for ticket in waiting[::2]]}}
    return step


def lease_state(call: Call, index: int, replies: list[Any] | None) -> dict[str, Any]:
    """Translates the reply of lease-state.lua about the grant with this index."""
    token, number = call.args[2 * index : 2 * index + 2]
    entries = slice(4 * index, 4 * index + 2)
    step = {"a": {"token": Name(token), "only": fence(number)}, **states(call, entries)}
    if replies is not None:
        step["r"] = {"is": "state", "left": Time(replies[index])}
    return step


def states(call: Call, entries: slice) -> dict[str, Any]:
    """Translates the states of one lock before and after a call."""
    return {
        "d": state(call, [*call.before[entries], None, None][:3]),
        "to": state(call, [*call.after[entries], None, None][:3]),
    }


def encode(call: Call) -> str:
    """Translates a call into a step."""
    if call.script in {"inspect", "lease-state"}:
        read, kinds = (inspected, KINDS) if call.script == "inspect" else (lease_state, STATE_KINDS)
        locks = [i for i in range(len(call.keys) // len(kinds)) if is_exclusive(call.before[len(kinds) * i])]
        if not locks:
            raise ElsewhereError
        replies = described(call, kinds)
        return write({"op": call.script, "all": [read(call, index, replies) for index in locks], **clock(call, None)})
    if not is_exclusive(call.before[0]):
        raise ElsewhereError
    arguments, reply = ENCODERS[call.script]
    step = {**states(call, slice(0, 3)), **arguments(call)}
    if call.has_reply:
        step["r"] = {"is": "error"} if is_refused(call, KINDS) else reply(call.reply)
    return write(step)
