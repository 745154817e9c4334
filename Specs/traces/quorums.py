"""Calls of the scripts of a quorum lock, as steps of QuorumTrace.tla."""

from __future__ import annotations

from typing import Any

from traces.calls import Call, SkippedError, UnexpectedError, is_refused, tla

MODULE = "QuorumTrace"
SCRIPTS = {"quorum-acquire", "quorum-fence", "quorum-release", "quorum-renew", "quorum-break", "quorum-inspect"}
# TLC's integers have 32 bits. A time of more than 12 days is written as this one.
FAR = 2**30


def encode(call: Call) -> str:
    """Returns a call as a TLA+ record."""
    names = Names()
    step: dict[str, Any] = {"script": call.script}
    match call.script, call.args:
        case "quorum-acquire", [token, ttl, candidate]:
            step |= {"token": names[token], "ttl": int(ttl), "candidate": candidate, "clock": call.time}
        case "quorum-fence", [token, fence, ttl, found, *restore]:
            step |= {"token": names[token], "fence": int(fence), "ttl": int(ttl), "found": [int(found)]}
            if restore:
                found_time, window = map(int, restore)
                step["found"] += [call.time // 1000 - found_time, window]
        case "quorum-release", [token, *only]:
            step |= {"token": names[token], "only": 0}
            if only:
                step["only"] = -1 if only[0] == "unrecorded" else int(only[0])
        case "quorum-renew", [token, ttl, *fence]:
            step |= {"token": names[token], "ttl": int(ttl), "fence": int(fence[0]) if fence else 0}
        case "quorum-break", [token]:
            step["token"] = names[token] if token else "none"
        case "quorum-inspect", []:
            pass
        case _:
            raise ValueError(f"{call.script} has other arguments: {call.args}")
    step["before"] = state(call, call.before, names)
    step["after"] = state(call, call.after, names)
    if "ttl" in step:
        # In ms, rounded up.
        step["ahead"] = max(0, -((call.time - step["after"]["num"]) // 1000)) if step["after"]["num"] else 0
    if is_refused(call, ("string", "string")):
        step["error"] = True
    elif call.has_reply:
        step["reply"] = reply(call, names)
    shrink_numbers(step)
    shrink_times(step)
    return tla(step)


class Names(dict[str, str]):
    """Names tokens in order of appearance: a, b, …"""

    def __missing__(self, token: str) -> str:
        name = self[token] = chr(ord("a") + len(self))
        return name


def state(call: Call, entries: list[dict[str, Any] | None], names: Names) -> dict[str, Any]:
    """Returns the keys of a lock as the specification's state. `quorum-break` has only the first key."""
    lock, number = [*entries, None][:2]
    for entry in (lock, number):
        if entry is not None and "string" not in entry:
            raise SkippedError("a key of another type")
    if number and not number["string"].isdecimal():
        raise SkippedError("a number that no script wrote")
    return {
        "tok": names[lock["string"]] if lock else "none",
        "left": remaining(call, lock) if lock else 0,
        "num": int(number["string"]) if number else 0,
        "kept": remaining(call, number) if number else 0,
    }


def remaining(call: Call, entry: dict[str, Any]) -> int:
    """Returns the ms for which a key lasts; -1 if it does not expire."""
    left = call.remaining(entry)
    return -1 if left is None else left


def reply(call: Call, names: Names) -> Any:
    """Returns the reply as that of the specification's operator."""
    now = call.time // 1000
    match call.script, call.reply:
        case "quorum-acquire", [0, int(left), int(recorded)]:
            return ["held", recorded, left]
        case "quorum-acquire", [1 | 2 as kind, int(number)]:
            return ["granted" if kind == 1 else "renewed", number]
        case "quorum-renew", [0 | 1 as kind, int(number), int(time)]:
            return ["renewed" if kind == 1 else "missing", number, now - time]
        case "quorum-break", int(time):
            return now - time + 1 if time else 0
        case "quorum-inspect", [str() | None as token, int(left), str() | None as number]:
            return ["none" if token is None else names[token], left, int(number or 0)]
        case "quorum-fence" | "quorum-release", int(number):
            return number
    raise UnexpectedError(call.script)


def shrink_numbers(step: dict[str, Any]) -> None:
    """Replaces numbers, which are microseconds of a clock, with small ones: with the same order, the same parity, and
    the same differences up to 6. The operators compare numbers, add 1 or 2, and test whether they are odd."""
    places: list[tuple[Any, Any]] = [(step["before"], "num"), (step["after"], "num")]
    places += [(step, name) for name in ("clock", "fence", "only") if name in step]
    if "found" in step:
        places.append((step["found"], 0))
    match step["script"], step.get("reply"):
        case ("quorum-acquire", ["granted" | "renewed", _]) | ("quorum-renew", list()):
            places.append((step["reply"], 1))
        case "quorum-inspect", list():
            places.append((step["reply"], 2))
        case "quorum-fence", int():
            places.append((step, "reply"))
    small: dict[int, int] = {}
    last, result = 0, 10
    for number in sorted({box[place] for box, place in places if box[place] > 0}):
        gap = number - last
        result += gap if gap <= 6 and small else 6 + gap % 2
        small[number], last = result, number
    for box, place in places:
        box[place] = small.get(box[place], box[place])


def shrink_times(step: dict[str, Any]) -> None:
    """Replaces times with their ranks, because the operators only compare them. Only a restore calculates with them."""
    places: list[tuple[Any, Any]] = [(step[when], name) for when in ("before", "after") for name in ("left", "kept")]
    places += [(step, name) for name in ("ttl", "ahead") if name in step]
    match step["script"], step.get("reply"):
        case ("quorum-acquire", ["held", _, _]):
            places.append((step["reply"], 2))
        case "quorum-inspect", list():
            places.append((step["reply"], 1))
    if len(step.get("found", [])) == 3:
        if step["ttl"] >= FAR:
            raise SkippedError("a restore of a lease of more than 12 days")
        places += [(step["found"], 1), (step["found"], 2)]
        ranks = {time: min(time, FAR) for time in (box[place] for box, place in places)}
    else:
        ranks = {time: rank for rank, time in enumerate(sorted({box[place] for box, place in places} | {0}))}
        ranks = {time: rank - ranks[0] if time > 0 else time for time, rank in ranks.items()}
    for box, place in places:
        box[place] = ranks[box[place]]
