"""The forced state of a breaker at one sidecar, and the decisions and reports that a history has on it.

The sidecar applies a forced state between the operator's request and its own first report of the state. Each decision
must follow the state until it ends, an operator makes the next request, or the sidecar dies: a breaker that is forced
open passes no calls, a breaker that is forced closed or disabled refuses no calls as `open`, and later reports agree.
Afterwards, the environment may end the state at any time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from histories import LOSSES, Call, Event, History
from locks import MILLISECOND, milliseconds
from search import FOREVER, Moment, Operation

#: The tolerances for the end of a forced state, and for the end in a report.
EARLY, SAME_END = 200 * MILLISECOND, 10 * MILLISECOND
NONE = -1
#: The values of a report.
OPEN, OTHER = 1, 0


@dataclass
class Forced:
    """A forced state whose request was confirmed to the operator."""

    service: int
    state: str
    requested: Moment
    confirmed: Moment
    until: int | None
    may_end: int
    generation: int | None = None


@dataclass
class View:
    """The forced states of one service at one sidecar."""

    forced: list[Forced]
    may_end: list[int]
    initial: int = NONE
    operations: list[Operation] = field(default_factory=list)
    #: The number of decisions, and of those wholly within a forced state that the sidecar has reported.
    decisions: int = 0
    bound: int = 0

    def step(self, state: int, operation: Operation) -> int | None:
        if operation.kind == "applied":
            return operation.value
        if state == NONE:
            return state
        is_open = self.forced[state].state == "open"
        if operation.kind == "reported":
            return state if (operation.value == OPEN) == is_open else None
        return state if (operation.kind == "refused") == is_open else None

    def moves(self, state: int, now: int, goal: Operation | None) -> Iterable[int]:
        if state != NONE and self.may_end[state] <= now:
            yield NONE

    def is_overdue(self, state: int, now: int) -> bool:
        return False

    def spent(self, state: int) -> tuple[int, frozenset[int]]:
        return state, frozenset()

    def describe(self, state: int) -> str:
        if state == NONE:
            return "not forced"
        return f"forced {self.forced[state].state} until {milliseconds(self.may_end[state])} or later"


def forced_states(history: History) -> list[Forced]:
    """Returns the confirmed forced states, with the generation in which sidecars reported each."""
    found: list[Forced] = []
    requested: dict[int, Moment] = {}
    for event in history.events:
        if event.line["what"] != "forced":
            continue
        service = event.line["service"]
        if "state" not in event.line:
            for forced in found:
                if forced.service == service:
                    forced.may_end = min(forced.may_end, int(event.at[0]))
            requested[service] = event.at
            continue
        until = event.line.get("until")
        length = 0 if until is None else until - event.at[0]
        may_end = FOREVER if until is None else until - EARLY - int(max(0, length) * history.drift)
        state = "open" if event.line["state"] == "open" else "closed"
        found.append(Forced(service, state, requested.get(service, event.at), event.at, until, may_end))
    losses = [fault for fault in history.faults if fault.kind in LOSSES]
    for forced in found:
        for fault in losses:
            if fault.ended >= forced.requested:
                forced.may_end = min(forced.may_end, max(int(fault.began[0]), int(forced.requested[0])))
    return found


def reports_of(history: History, service: int) -> list[Event]:
    return [event for event in history.events if event.line["what"] == "breaker" and event.line["service"] == service]


def is_report(event: Event, forced: Forced) -> bool:
    """Returns whether a sidecar may have reported this forced state."""
    if not forced.requested < event.at or event.at[0] >= forced.may_end or event.line["state"] != forced.state:
        return False
    until = event.line.get("until")
    if until is None or forced.until is None:
        return until is forced.until
    # The end counts from the time at which Redis executed the request.
    return bool(-SAME_END <= until - forced.until <= forced.confirmed[0] - forced.requested[0] + SAME_END)


def views(history: History) -> Iterable[tuple[int, int, View]]:
    """Yields the view for each service with forced states and each of its sidecars."""
    states = forced_states(history)
    decisions: dict[tuple[int, int], list[Call]] = {}
    for call in history.calls:
        if call.what in ("permit", "proxy") and not call.is_doubtful:
            decisions.setdefault((call.request["service"], call.sidecar), []).append(call)
    for service in sorted({forced.service for forced in states}):
        forced = [each for each in states if each.service == service]
        reports = reports_of(history, service)
        for each in forced:
            # The breaker may have changed to the same state just before. The forced state is the last one.
            each.generation = max(
                (event.line["generation"] for event in reports if is_report(event, each)), default=None
            )
        for sidecar in sorted({event.line["sidecar"] for event in reports}):
            own = [event for event in reports if event.line["sidecar"] == sidecar]
            yield service, sidecar, view(history, forced, own, decisions.get((service, sidecar), []), sidecar)


def view(history: History, forced: list[Forced], reports: list[Event], calls: list[Call], sidecar: int) -> View:
    deaths = [int(fault.began[0]) for fault in history.faults if fault.kind == "kill" and fault.sidecar == sidecar]
    may_end = [min([each.may_end, *(death for death in deaths if death >= each.requested[0])]) for each in forced]
    result = View(forced, may_end)
    applied: list[tuple[Moment, int]] = []
    for number, each in enumerate(forced):
        first = next(
            (event for event in reports if is_report(event, each) and event.line["generation"] == each.generation), None
        )
        if first is not None and first.at[0] < may_end[number]:
            applied.append((first.at, number))
            result.operations.append(
                Operation("applied", -1, each.requested, first.at, number, False, f"reported {each.state}")
            )
    for call in calls:
        if call.ending == "refused" and call.reason != "open":
            continue
        kind = "refused" if call.ending == "refused" else "passed"
        text = f"client {call.client} at sidecar {sidecar}: {call.what} of {milliseconds(call.invoked[0])} was {kind}"
        result.operations.append(Operation(kind, call.client, call.invoked, call.ended, 0, True, text))
        result.decisions += 1
        result.bound += any(at < call.invoked and call.ended[0] < may_end[number] for at, number in applied)
    for event in reports:
        generation = event.line["generation"]
        # Reports of changes before the forced state may arrive after it.
        if any(at < event.at and generation > (forced[number].generation or 0) for at, number in applied):
            text = f"sidecar {sidecar} reported generation {generation}: {event.line['state']}"
            value = OPEN if event.line["state"] == "open" else OTHER
            before = (event.at[0], event.at[1] - 0.5)
            result.operations.append(Operation("reported", -1, before, event.at, value, True, text))
    return result
