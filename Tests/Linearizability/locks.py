"""The sequential lock, and the operations that a history has on it.

A grant needs a free lock and a fence above all earlier ones. A renewal and a release need the named lease, "lost" needs
its absence, and "held" needs any lease. What no client asks for is a move of the environment:

- A lease ends between [request + TTL] and [answer + TTL], because Redis set its end between the two. So its end is an
  operation with an interval of its own, and the state needs no clock. Times in the state would not be sound to search:
  an early grant allows the next grant earlier, a late one explains later refusals, and neither includes the other.
- An unanswered acquire may hold the lock once, from any time after its request, and may give it up at any time.

An unanswered renewal or release only widens the interval in which its lease may end. Some refusals have other reasons
than a lease: waiting clients keep a place in the queue. These refusals are not judged.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from histories import Call, History
from search import FOREVER, Moment, Operation

MILLISECOND = 1_000_000
#: Redis counts in whole milliseconds, so a lease may end this much earlier than its TTL says, or later.
EARLY, LATE = 2 * MILLISECOND, 5 * MILLISECOND
#: How long the place of a sidecar that no longer waits stays in the queue; see docs/reference/locks.md.
TICKET = 10_000 * MILLISECOND
FREE, UNKNOWN, FIRST_UNANSWERED = -1, -2, -10

LockState = tuple[int, int, frozenset[int]]
"""The holder, the highest fence, and the unanswered acquires that have held the lock. The holder is the number of a
term, or negative: `FREE`, `UNKNOWN` (from before the judged period), or `FIRST_UNANSWERED` minus a number."""


@dataclass
class Term:
    """What a grant or a renewal gives to a lease."""

    lease: int
    fence: int
    client: int
    invoked: Moment
    answered: Moment
    may_end: int
    must_end: int
    #: Whether the grant was requested before the judged period, and its lease may have been lost.
    is_carried: bool = False


@dataclass(frozen=True)
class Unanswered:
    """The period in which an acquire without a certain answer may hold the lock."""

    begins: int
    ends: int


@dataclass
class LockModel:
    initial: LockState
    terms: list[Term] = field(default_factory=list)
    #: In order of their ends. The one that ends first is used first: the others can replace it, but not the reverse.
    unanswered: list[Unanswered] = field(default_factory=list)

    def step(self, state: LockState, operation: Operation) -> LockState | None:
        holder, fence, used = state
        lease = self.terms[holder].lease if holder >= 0 else None
        match operation.kind:
            case "granted":
                term = self.terms[operation.value]
                # A repeated call of the same owner renews its lease.
                if holder >= 0 and lease == term.lease and self.terms[holder].fence == term.fence:
                    return operation.value, fence, used
                if holder >= 0 or (term.fence <= fence and not term.is_carried):
                    return None
                return operation.value, fence if term.is_carried else term.fence, used
            case "renewed":
                return (operation.value, fence, used) if lease == self.terms[operation.value].lease else None
            case "released":
                return (FREE, fence, used) if lease == operation.value else None
            case "renewed-before" | "released-before":
                return (UNKNOWN if "renewed" in operation.kind else FREE, fence, used) if holder == UNKNOWN else None
            case "released-unseen":
                return (FREE, fence, used) if holder < 0 else None
            case "lost":
                return None if lease == operation.value else state
            case _:
                return None if holder == FREE else state

    def moves(self, state: LockState, now: int, goal: Operation | None) -> Iterable[LockState]:
        holder, fence, used = state
        if (holder >= 0 and self.terms[holder].may_end <= now) or self.is_overdue(state, now):
            yield FREE, fence, used
        if holder == FREE and goal is not None and goal.kind == "held":
            for number, each in enumerate(self.unanswered):
                if each.begins <= now and each.ends >= goal.invoked[0] and number not in used:
                    yield FIRST_UNANSWERED - number, fence, used | {number}
                    return

    def is_overdue(self, state: LockState, now: int) -> bool:
        holder = state[0]
        if holder >= 0:
            return self.terms[holder].must_end <= now
        return holder <= FIRST_UNANSWERED and self.unanswered[FIRST_UNANSWERED - holder].ends <= now

    def spent(self, state: LockState) -> tuple[tuple[int, int], frozenset[int]]:
        return state[:2], state[2]

    def describe(self, state: LockState) -> str:
        holder, fence, _ = state
        if holder < 0:
            return f"free after fence {fence}" if holder == FREE else "perhaps held by an unknown lease"
        term = self.terms[holder]
        return f"held by lease {term.lease} with fence {term.fence} until {milliseconds(term.may_end)} or later"

    def ticks(self) -> set[int]:
        ends = {term.must_end for term in self.terms} | {each.ends for each in self.unanswered}
        return {end for end in ends if end < FOREVER}


def milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / MILLISECOND:.3f} ms"


class LockHistory:
    """The operations on one lock within one period."""

    def __init__(self, history: History, lock: int, calls: list[Call], start: Moment, end: Moment, late: int | None):
        self.history, self.lock, self.late = history, lock, late
        self.start, self.end = start, end
        self.is_first = start[0] == -FOREVER
        self.calls = [self.within(call) for call in calls if call.invoked < end]
        self.model = LockModel((FREE if self.is_first else UNKNOWN, self.highest_before(), frozenset()))
        self.operations: list[Operation] = []
        self.excused = 0
        #: The calls without a certain answer for each lease, and the links.
        self.doubtful: dict[int, list[Call]] = defaultdict(list)
        self.retried = self.retries()
        granted: set[int] = set()
        before: set[int] = set()
        for call in self.calls:
            lease = call.request.get("lease", 0)
            if call.is_doubtful and lease:
                self.doubtful[lease].append(call)
            elif call.ending == "granted" and call.ended < start:
                before.add(call.reply["lease"])
            elif call.ending == "granted":
                granted.add(call.reply["lease"])
        self.granted, self.before = granted, before
        self.collect_unanswered()
        waiters = [
            (call, self.latest(call) + TICKET) for call in self.calls if call.request.get("wait") or self.is_joint(call)
        ]
        for call in self.calls:
            if not call.is_doubtful and call.ended >= start:
                self.add(call, waiters)
        self.widen()

    def within(self, call: Call) -> Call:
        """Returns the call without an answer that came after the period."""
        return call if call.ended < self.end else replace(call, ended=(FOREVER, 0), ending="unknown", reply={})

    def highest_before(self) -> int:
        """Returns the highest fence of earlier periods. It counts unless data was lost and the clock moved."""
        kinds = {fault.kind for fault in self.history.faults}
        if "clock" in kinds and kinds & {"redis-wipe", "failover"}:
            return -1
        earlier = (call for call in self.calls if call.ending == "granted" and call.ended < self.start)
        return max((int(call.reply["fence"]) for call in earlier), default=-1)

    @staticmethod
    def is_joint(call: Call) -> bool:
        return call.what == "acquire" and bool(call.request.get("ok"))

    def latest(self, call: Call) -> int:
        return self.history.latest(call, self.late) if call.is_doubtful else int(call.ended[0])

    def ttl(self, call: Call) -> int:
        return int(call.request["ttl"]) * MILLISECOND

    def longest(self, ttl: int) -> int:
        return int(ttl * (1 + self.history.drift)) + LATE

    def shortest(self, ttl: int) -> int:
        return int(ttl * (1 - self.history.drift)) - EARLY

    def retries(self) -> dict[int, list[Call]]:
        """Returns the attempts before each grant that had no certain answer, and may have had the same owner."""
        attempts: dict[int, list[Call]] = defaultdict(list)
        retries: dict[int, list[Call]] = {}
        for call in self.calls:
            if call.what == "acquire" and call.is_doubtful:
                attempts[call.client].append(call)
                continue
            earlier = attempts.pop(call.client, [])
            if call.ending == "granted":
                retries[id(call)] = earlier
        return retries

    def collect_unanswered(self) -> None:
        # A refused call for several locks may have held this one for a moment.
        candidates = [
            call
            for call in self.calls
            if call.what == "acquire" and (call.is_doubtful or (self.is_joint(call) and call.ending == "refused"))
        ]
        candidates = [call for call in candidates if self.latest(call) >= self.start[0]]
        longest = self.longest(max(map(self.ttl, candidates), default=0))
        periods = [Unanswered(int(call.invoked[0]), min(FOREVER, self.latest(call) + longest)) for call in candidates]
        self.model.unanswered = sorted(periods, key=lambda each: (each.ends, each.begins))
        self.unseen = {(call.client, call.invoked) for call in candidates}

    def add(self, call: Call, waiters: list[tuple[Call, int]]) -> None:
        lease = call.request.get("lease", 0)
        match call.what, call.ending:
            case "acquire", "granted":
                self.add_term(call, "granted", call.reply["lease"], call.reply["fence"])
            case "acquire", "refused":
                if call.reason == "held" and not self.is_joint(call) and not self.may_queue(call, waiters):
                    self.append(call, "held", 0, reads=True)
                else:
                    self.excused += 1
            case _, "refused":
                self.append(call, "lost", lease, reads=True)
            case "renew", "renewed":
                if lease in self.granted:
                    self.add_term(call, "renewed", lease, 0)
                else:
                    self.append(call, "renewed-before", lease)
            case "release", "released":
                # An acquire without an answer may have given the client a lease that the history does not name.
                is_unseen = lease not in self.before and any(
                    client == call.client and invoked < call.invoked for client, invoked in self.unseen
                )
                others = "released-unseen" if is_unseen else "released-before"
                self.append(call, "released" if lease in self.granted else others, lease)

    @staticmethod
    def may_queue(call: Call, waiters: list[tuple[Call, int]]) -> bool:
        """Returns whether another client that waited may have had a place in the queue during the call."""
        return any(
            other is not call and other.invoked <= call.ended and until >= call.invoked[0] for other, until in waiters
        )

    def append(self, call: Call, kind: str, value: int, reads: bool = False) -> None:
        answer = " ".join(f"{name} {call.reply[name]}" for name in ("reason", "lease", "fence") if name in call.reply)
        named = f" of lease {call.request['lease']}" if "lease" in call.request else ""
        at = milliseconds(call.invoked[0])
        text = f"client {call.client} at sidecar {call.sidecar}: {call.what}{named} of {at} was {call.ending} {answer}"
        self.operations.append(Operation(kind, call.client, call.invoked, call.ended, value, reads, text.rstrip()))

    def add_term(self, call: Call, kind: str, lease: int, fence: int) -> None:
        ttl = self.ttl(call)
        # A client may rely on a promised validity, even on one that exceeds the TTL.
        may_end = call.invoked[0] + max(self.shortest(ttl), int(call.reply["valid"]) * MILLISECOND)
        must_end = max(may_end, call.ended[0] + self.longest(ttl))
        term = Term(lease, fence, call.client, call.invoked, call.ended, may_end, int(must_end))
        if call.invoked < self.start:
            term.is_carried, term.may_end = True, int(self.start[0])
        for attempt in self.retried.get(id(call), []):
            term.must_end = max(term.must_end, min(FOREVER, self.latest(attempt) + self.longest(self.ttl(attempt))))
        self.append(call, kind, len(self.model.terms))
        self.model.terms.append(term)

    def widen(self) -> None:
        """Widens the interval of each lease's end by what unanswered calls and links may have done."""
        fences = {term.lease: term.fence for term in self.model.terms if term.fence}
        acquires = [call for call in self.calls if call.what == "acquire" and call.is_doubtful]
        links = [event for event in self.history.events if event.line["what"] == "linked" and event.at < self.end]
        for term in self.model.terms:
            term.fence = term.fence or fences[term.lease]
            own = [
                (link.at, link.line)
                for link in links
                if link.line["lease"] == term.lease and link.line["lock"] == self.lock
            ]
            for at, line in own:
                self.link(term, at, line, is_last=at == own[-1][0])
            calls = self.doubtful[term.lease] + [
                call for call in acquires if call.client == term.client and call.invoked > term.answered
            ]
            for call in sorted(calls, key=lambda each: each.invoked):
                self.doubt(term, call)

    def link(self, term: Term, at: Moment, line: dict[str, object], is_last: bool) -> None:
        # A sidecar renews a linked lease. Once its client has left, the sidecar releases it.
        if line["reason"] == "left":
            # The client may have read its last answer at the same time, before it left.
            term.may_end = min(term.may_end, max(int(at[0]) + 1, int(term.invoked[0])))
        if line["reason"] == "began" or self.late is None:
            term.must_end = FOREVER
        elif is_last:
            ttl = int(str(line["ttl"])) * MILLISECOND
            latest = self.history.calm(int(at[0]), int(at[0]), self.late)
            term.must_end = max(int(term.answered[0]), latest) + self.longest(ttl)

    def doubt(self, term: Term, call: Call) -> None:
        latest = self.latest(call)
        if call.invoked[0] > term.must_end or latest < term.invoked[0]:
            return
        if call.what == "release":
            term.may_end = min(term.may_end, max(int(call.invoked[0]), int(term.invoked[0])))
        else:
            ttl = self.ttl(call)
            term.must_end = max(term.must_end, min(FOREVER, latest + self.longest(ttl)))
            shortened = max(int(call.invoked[0]), int(term.invoked[0])) + self.shortest(ttl)
            term.may_end = min(term.may_end, shortened)
