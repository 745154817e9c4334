"""Reads the histories that `interlock bench --history` and `simulate --history` write."""

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from search import FOREVER, Moment

REQUESTS = {"acquire", "renew", "release", "take", "permit", "report", "proxy"}
ANSWERS = {"granted", "renewed", "released", "taken", "permitted", "reported", "passed", "refused", "failed", "unknown"}
#: The faults after which the primary's data or clock is not what it was.
LOSSES = {"redis-wipe", "failover", "clock", "foreign-lock"}
#: The faults of topologies that have several primaries.
SEVERAL_PRIMARIES = {"quorum-server", "quorum-restart", "reshard", "node-join", "node-leave"}
START: Moment = (-FOREVER, 0)
END: Moment = (FOREVER, 0)


class HistoryError(Exception):
    """The file is not a complete history."""


@dataclass
class Call:
    """A request, with its answer if the client got one that says whether the request took effect."""

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
        """Yields the periods in which the primary keeps its data, and its clock does not jump."""
        start = START
        for fault in sorted((each for each in self.faults if each.kind in LOSSES), key=lambda each: each.began):
            if fault.began > start:
                yield start, fault.began
            start = max(start, fault.ended)
        if start < END:
            yield start, END

    def latest(self, call: Call, late: int | None) -> int:
        """Returns the latest time at which a call without a certain answer may take effect, in nanoseconds.

        - Parameter late: how long after the call, and after the faults that may have held it back.
        """
        return FOREVER if late is None or call.ended == END else self.calm(call.invoked[0], call.ended[0], late)

    def calm(self, since: int, at: int, late: int) -> int:
        for fault in sorted(self.faults, key=lambda each: each.began):
            if fault.began[0] <= at + late and fault.ended[0] >= since:
                at = max(at, fault.ended[0])
        return min(FOREVER, at + late)


def read(path: pathlib.Path) -> History:
    """Reads a history. Raises `HistoryError` if the file is damaged or cut off."""
    try:
        lines = path.read_text().splitlines()
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
    if not parsed or parsed[0].get("history") != 1:
        raise HistoryError(f"{path}:1: expected the rules of a history in format 1")
    if parsed[-1].get("what") != "end" or parsed[-1].get("events") != len(parsed) - 2:
        raise HistoryError(f"{path}: the file is cut off; expected an end with the number of events")
    rules = parsed[0]["rules"]
    history = History(str(path), rules.get("clockDrift", 0), [each["name"] for each in rules["services"]])
    try:
        collect(history, parsed[1:-1])
    except (KeyError, TypeError) as error:
        raise HistoryError(f"{path}: an event lacks a field: {error}") from None
    return history


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
