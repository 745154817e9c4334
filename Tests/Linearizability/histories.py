"""Reads the histories that `interlock bench --history` and `simulate --history` write."""

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from search import FOREVER, Moment

REQUESTS = {"acquire", "renew", "release", "take", "permit", "report", "proxy"}
ANSWERS = {"granted", "renewed", "released", "taken", "permitted", "reported", "passed", "refused", "failed", "unknown"}
#: The faults that change the primary's data or clock.
LOSSES = {"redis-wipe", "failover", "clock", "foreign-lock"}
#: The faults of topologies that have several primaries.
SEVERAL_PRIMARIES = {"quorum-server", "quorum-restart", "reshard", "node-join", "node-leave"}
#: The fields that the judge reads, apart from `what`.
NUMBERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ANSWERS, ("at", "client")),
    **dict.fromkeys(REQUESTS, ("at", "client", "sidecar")),
    "acquire": ("at", "client", "sidecar", "lock", "ttl"),
    "renew": ("at", "client", "sidecar", "lock", "lease", "ttl"),
    "release": ("at", "client", "sidecar", "lock", "lease"),
    "permit": ("at", "client", "sidecar", "service"),
    "proxy": ("at", "client", "sidecar", "service"),
    "granted": ("at", "client", "lease", "fence", "valid"),
    "renewed": ("at", "client", "valid"),
    "linked": ("at", "lock", "lease", "ttl"),
    "forced": ("at", "service"),
    "breaker": ("at", "sidecar", "service", "generation"),
    "fault": ("at", "fault"),
    "mended": ("at", "fault"),
}
TEXTS = {"linked": ("reason",), "breaker": ("state",), "fault": ("reason",)}
START: Moment = (-FOREVER, 0)
END: Moment = (FOREVER, 0)


class HistoryError(Exception):
    """A file that is not a complete history."""


@dataclass
class Call:
    """A request and its answer."""

    client: int
    sidecar: int
    what: str
    request: dict[str, Any]
    invoked: Moment
    ended: Moment = END
    ending: str = "unknown"
    reply: dict[str, Any] = field(default_factory=dict)

    @property
    def is_doubtful(self) -> bool:
        """Whether the client does not know if the request took effect."""
        return self.ending in ("unknown", "failed")

    @property
    def reason(self) -> str:
        return str(self.reply.get("reason", ""))


@dataclass
class Fault:
    kind: str
    sidecar: int | None
    began: Moment
    ended: Moment = END


@dataclass
class Event:
    """A line that is neither a request nor an answer."""

    at: Moment
    line: dict[str, Any]


@dataclass
class History:
    path: str
    drift: float
    services: list[str]
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def has_several_primaries(self) -> bool:
        return any(fault.kind in SEVERAL_PRIMARIES for fault in self.faults)

    def segments(self) -> Iterator[tuple[Moment, Moment]]:
        """Yields the periods in which the primary keeps its data and its clock does not jump."""
        start = START
        for fault in sorted((each for each in self.faults if each.kind in LOSSES), key=lambda each: each.began):
            if fault.began > start:
                yield start, fault.began
            start = max(start, fault.ended)
        if start < END:
            yield start, END

    def latest(self, call: Call, late: int | None) -> int:
        """Returns the latest time at which a call without a certain answer may take effect, in nanoseconds.

        - Parameter late: the longest delay after the call and after the faults that may have delayed it.
          `None`: no limit.
        """
        return FOREVER if late is None or call.ended == END else self.calm(call.invoked[0], call.ended[0], late)

    def calm(self, since: int, at: int, late: int) -> int:
        """Returns the time `late` after `at` and after the faults that may have delayed a call since `since`."""
        for fault in sorted(self.faults, key=lambda each: each.began):
            if fault.began[0] <= at + late and fault.ended[0] >= since:
                at = max(at, fault.ended[0])
        return min(FOREVER, at + late)


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the lines of a complete history. Raises `HistoryError` if the file is damaged or cut off."""
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path}: cannot be read: {error}; expected a file from --history") from None
    parsed: list[dict[str, Any]] = []
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            raise HistoryError(f"{path}:{number}: expected a JSON object")
        parsed.append(line)
    if parsed[0].get("history") != 1:
        raise HistoryError(f"{path}:1: expected the rules of a history in format 1")
    if parsed[-1].get("what") != "end" or parsed[-1].get("events") != len(parsed) - 2:
        raise HistoryError(f"{path}: the file is cut off; expected an end with the number of events")
    return parsed


def read(path: pathlib.Path) -> History:
    """Reads a history. Raises `HistoryError` if the file is damaged or cut off."""
    lines = read_lines(path)
    try:
        rules = lines[0]["rules"]
        history = History(
            str(path), float(rules.get("clockDrift", 0)), [str(each["name"]) for each in rules["services"]]
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise HistoryError(f"{path}:1: the rules lack the services, or a field has the wrong type") from None
    for number, line in enumerate(lines[1:-1], 2):
        check(line, f"{path}:{number}", len(history.services))
    collect(history, lines[1:-1])
    return history


def check(line: dict[str, Any], place: str, services: int) -> None:
    """Raises `HistoryError` if a field that the judge reads is missing or has the wrong type."""
    what = line.get("what")
    if not isinstance(what, str):
        raise HistoryError(f"{place}: an event lacks the field what")
    optional = [name for name in ("sidecar", "until", "wait") if line.get(name) is not None]
    for name in [*NUMBERS.get(what, ("at",)), *optional]:
        if not isinstance(line.get(name), int):
            raise HistoryError(f"{place}: {what} needs a whole number in the field {name}")
    for name in TEXTS.get(what, ()):
        if not isinstance(line.get(name), str):
            raise HistoryError(f"{place}: {what} needs a string in the field {name}")
    if "service" in NUMBERS.get(what, ()) and not 0 <= line["service"] < services:
        raise HistoryError(f"{place}: the rules have no service {line['service']}")


def collect(history: History, lines: list[dict[str, Any]]) -> None:
    open_calls: dict[int, Call] = {}
    open_faults: dict[int, Fault] = {}
    now = -FOREVER
    for number, line in enumerate(lines, 2):
        now = max(now, line["at"])
        at, what = (now, float(number)), line["what"]
        if what in REQUESTS:
            call = Call(line["client"], line["sidecar"], what, line, at)
            open_calls[call.client] = call
            history.calls.append(call)
        elif what in ANSWERS:
            if (answered := open_calls.pop(line["client"], None)) is not None:
                answered.ended, answered.ending, answered.reply = at, what, line
        elif what == "fault":
            fault = Fault(line["reason"], line.get("sidecar"), at)
            open_faults[line["fault"]] = fault
            history.faults.append(fault)
        elif what == "mended":
            if (ended := open_faults.pop(line["fault"], None)) is not None:
                ended.ended = at
        else:
            history.events.append(Event(at, line))
