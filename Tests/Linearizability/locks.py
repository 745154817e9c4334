"""The sequential lock, and the operations that a history has on it.

A grant needs a free lock and a fence above all earlier ones. A renewal and a release need the named lease. "lost" needs
the absence of that lease, and "held" needs any lease. The environment may also change the state:

- A lease ends between [request + TTL] and [answer + TTL], because Redis set its end between the two. The model treats
  the end as an operation with that interval, so the state contains no times. States with times are not comparable: an
  early grant allows an earlier next grant, and a late one explains later refusals.
- An unanswered acquire may hold the lock once, at any time after its request, and may give it up at any time.
- After a loss of data, an unknown lease may hold the lock until the longest earlier TTL is over.

An unanswered renewal or release only widens the interval in which its lease may end. So does a call that a loss of data
interrupts, because it may have taken effect before the loss. The model drops refusals that it cannot contradict: those
that a queued client, the unknown lease or another lock explains, and "lost" for a lease that it does not know.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from histories import Call, Event, History
from search import FOREVER, Moment, Operation

MILLISECOND = 1_000_000
#: The tolerance for the end of a lease, because Redis counts in whole milliseconds.
EARLY, LATE = 2 * MILLISECOND, 5 * MILLISECOND
#: The time for which the ticket of a sidecar that stopped waiting stays in the queue; see docs/reference/locks.md.
TICKET = 10_000 * MILLISECOND
FREE, UNKNOWN, FIRST_UNANSWERED = -1, -2, -10
#: The faults after which a lease may last longer than its TTL, or has a TTL that the history does not contain.
UNKNOWN_ENDS = {"clock", "foreign-lock"}

#: The reasons for which a call is not judged.
QUEUED = "refusals that a waiting client or another lock explains"
SURVIVED = "refusals that a lease from before a loss of data explains"
UNNAMED = "refusals of leases that were not granted since the start or the last loss of data"

LockState = tuple[int, int, frozenset[int]]
"""The holder, the highest fence, and the unanswered acquires that have held the lock. The holder is the number of a
term, or negative: `FREE`, `UNKNOWN` (from before the judged period), or `FIRST_UNANSWERED` minus a number."""


@dataclass
class Term:
    """The period in which a lease may end after one grant or renewal."""

    lease: int
    #: `None`: the history does not name it.
    fence: int | None
    client: int
    invoked: Moment
    answered: Moment
    may_end: int
    must_end: int
    #: Whether the grant may repeat one from before the judged period, which has an older fence.
    may_repeat: bool = False


@dataclass(frozen=True)
class Unanswered:
    """The period in which an acquire with an unknown effect may hold the lock."""

    begins: int
    ends: int


@dataclass
class LockModel:
    initial: LockState
    terms: list[Term] = field(default_factory=list)
    #: Sorted by end. The search uses the earliest end first, because the later ones can replace it.
    unanswered: list[Unanswered] = field(default_factory=list)
    #: The latest end of the unknown lease.
    unknown_end: int = -FOREVER

    def step(self, state: LockState, operation: Operation) -> LockState | None:
        holder, fence, used = state
        lease = self.terms[holder].lease if holder >= 0 else None
        match operation.kind:
            case "granted":
                return self.grant(state, operation.value)
            case "renewed" | "renewed-before" | "renewed-unseen":
                is_held = lease == self.terms[operation.value].lease or self.may_be_held(holder, operation.kind)
                return (operation.value, fence, used) if is_held else None
            case "released" | "released-before" | "released-unseen":
                is_held = lease == operation.value or self.may_be_held(holder, operation.kind)
                return (FREE, fence, used) if is_held else None
            case "lost":
                return None if lease == operation.value else state
            case _:
                return None if holder == FREE else state

    def grant(self, state: LockState, number: int) -> LockState | None:
        holder, fence, used = state
        term = self.terms[number]
        assert term.fence is not None
        if holder >= 0:
            # A repeated call of the same owner renews its lease.
            held = self.terms[holder]
            is_same = (held.lease, held.client) == (term.lease, term.client) and held.fence in (None, term.fence)
            return (number, fence, used) if is_same else None
        if term.fence <= fence and not term.may_repeat:
            return None
        return number, max(fence, term.fence), used

    @staticmethod
    def may_be_held(holder: int, kind: str) -> bool:
        """Returns whether a lease without a term may hold the lock."""
        return holder == UNKNOWN if kind.endswith("-before") else kind.endswith("-unseen") and holder < 0

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
        if holder == UNKNOWN:
            return self.unknown_end <= now
        return holder != FREE and self.unanswered[FIRST_UNANSWERED - holder].ends <= now

    def spent(self, state: LockState) -> tuple[tuple[int, int], frozenset[int]]:
        return state[:2], state[2]

    def describe(self, state: LockState) -> str:
        holder, fence, _ = state
        if holder < 0:
            return f"free after fence {fence}" if holder == FREE else "perhaps held by an unknown lease"
        term = self.terms[holder]
        return f"held by lease {term.lease} with fence {term.fence} until {milliseconds(term.may_end)} or later"

    def ticks(self) -> set[int]:
        ends = {term.must_end for term in self.terms} | {each.ends for each in self.unanswered} | {self.unknown_end}
        return {end for end in ends if abs(end) < FOREVER}


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
        #: The number of calls that are not judged, by reason.
        self.excused: Counter[str] = Counter()
        earlier = [call for call in self.calls if call.ending == "granted" and call.invoked < start]
        #: The leases that were granted before the period, and those that were requested before it, with their clients.
        self.before = {call.reply["lease"] for call in earlier if call.ended < start}
        self.owners = {(call.reply["lease"], call.client) for call in earlier}
        #: The leases that were granted within the period so far.
        self.granted: set[int] = set()
        #: The fences of all leases so far.
        self.fences: dict[int, int] = {}
        self.uncertain = [call for call in self.calls if self.is_uncertain(call)]
        self.links = [
            event
            for event in history.events
            if event.line["what"] == "linked" and event.line["lock"] == lock and event.at < end
        ]
        self.retried = self.retries()
        self.collect_unanswered()
        self.waiters = [
            (call, self.latest(call) + TICKET) for call in self.calls if call.request.get("wait") or self.is_joint(call)
        ]
        for call in self.calls:
            if not call.is_doubtful and call.invoked >= start:
                self.add(call)
            if call.ending == "granted":
                self.fences[call.reply["lease"]] = call.reply["fence"]
        for term in self.model.terms:
            self.widen(term)
        if not self.is_first:
            self.model.unknown_end = self.latest_unknown()
        self.drop_vacuous()

    def within(self, call: Call) -> Call:
        """Returns the call, without its answer if that came after the period."""
        return call if call.ended < self.end else replace(call, ended=(FOREVER, 0), ending="unknown", reply={})

    def highest_before(self) -> int:
        """Returns the highest fence of earlier periods. It counts unless data was lost and the clock moved."""
        kinds = {fault.kind for fault in self.history.faults}
        if "clock" in kinds and kinds & {"redis-wipe", "failover"}:
            return -1
        earlier = (call for call in self.calls if call.ending == "granted" and call.ended < self.start)
        return max((int(call.reply["fence"]) for call in earlier), default=-1)

    def is_uncertain(self, call: Call) -> bool:
        """Returns whether the call may have taken effect at an unknown time, perhaps before a loss of data."""
        return call.is_doubtful or (call.ending != "refused" and call.invoked < self.start <= call.ended)

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
        """Returns the earlier attempts of each grant that had no certain answer and may have had the same owner."""
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
            if call.what == "acquire"
            and (self.is_uncertain(call) or (self.is_joint(call) and call.ending == "refused"))
        ]
        candidates = [call for call in candidates if self.latest(call) >= self.start[0]]
        longest = self.longest(max(map(self.ttl, candidates), default=0))
        periods = [
            Unanswered(int(call.invoked[0]), max(self.latest_known(call), min(FOREVER, self.latest(call) + longest)))
            for call in candidates
        ]
        self.model.unanswered = sorted(periods, key=lambda each: (each.ends, each.begins))
        self.unseen = {(call.client, call.invoked) for call in candidates}

    def latest_known(self, call: Call) -> int:
        """Returns the latest end of the lease if the client got it, and perhaps renewed it."""
        if call.ending != "granted":
            return 0
        must_end = int(call.ended[0]) + self.longest(self.ttl(call))
        lease = int(call.reply["lease"])
        term = Term(lease, None, call.client, call.invoked, call.ended, int(self.start[0]), must_end)
        self.widen(term)
        return term.must_end

    def add(self, call: Call) -> None:
        lease = call.request.get("lease", 0)
        match call.what, call.ending:
            case "acquire", "granted":
                self.add_term(call, "granted", call.reply["lease"], call.reply["fence"])
                self.granted.add(call.reply["lease"])
            case "acquire", "refused":
                if call.reason == "held" and not self.is_joint(call) and not self.may_queue(call):
                    self.append(call, "held", 0, reads=True)
                else:
                    self.excused[QUEUED] += 1
            case _, "refused":
                self.append(call, "lost", lease, reads=True)
            case "renew", "renewed":
                self.add_term(call, "renewed" + self.origin(call, lease), lease, self.fences.get(lease))
            case "release", "released":
                self.append(call, "released" + self.origin(call, lease), lease)

    def origin(self, call: Call, lease: int) -> str:
        """Returns the suffix of the operation's kind, which says where the lease may come from."""
        if lease in self.granted:
            return ""
        # An acquire without an answer may have given the client a lease that the history does not name.
        is_unseen = any(client == call.client and invoked < call.invoked for client, invoked in self.unseen)
        return "-unseen" if is_unseen and lease not in self.before else "-before"

    def may_queue(self, call: Call) -> bool:
        """Returns whether another client that waited may have had a position in the queue during the call."""
        return any(
            other is not call and other.invoked <= call.ended and until >= call.invoked[0]
            for other, until in self.waiters
        )

    def append(self, call: Call, kind: str, value: int, reads: bool = False) -> None:
        answer = " ".join(f"{name} {call.reply[name]}" for name in ("reason", "lease", "fence") if name in call.reply)
        named = f" of lease {call.request['lease']}" if "lease" in call.request else ""
        at = milliseconds(call.invoked[0])
        text = f"client {call.client} at sidecar {call.sidecar}: {call.what}{named} of {at} was {call.ending} {answer}"
        self.operations.append(Operation(kind, call.client, call.invoked, call.ended, value, reads, text.rstrip()))

    def add_term(self, call: Call, kind: str, lease: int, fence: int | None) -> None:
        ttl = self.ttl(call)
        # A client may rely on a promised validity, even on one that exceeds the TTL.
        may_end = call.invoked[0] + max(self.shortest(ttl), int(call.reply["valid"]) * MILLISECOND)
        must_end = max(may_end, call.ended[0] + self.longest(ttl))
        term = Term(lease, fence, call.client, call.invoked, call.ended, may_end, int(must_end))
        attempts = self.retried.get(id(call), [])
        is_retry = any(each.invoked < self.start for each in attempts)
        term.may_repeat = is_retry or (lease, call.client) in self.owners
        for attempt in attempts:
            term.must_end = max(term.must_end, min(FOREVER, self.latest(attempt) + self.longest(self.ttl(attempt))))
        self.append(call, kind, len(self.model.terms))
        self.model.terms.append(term)

    def widen(self, term: Term) -> None:
        """Widens the interval of a lease's end by the possible effects of uncertain calls and links."""
        self.widen_by(term, [link for link in self.links if link.line["lease"] == term.lease])
        for call in self.uncertain:
            is_later = call.client == term.client and call.invoked > term.answered
            if is_later if call.what == "acquire" else call.request["lease"] == term.lease:
                self.doubt(term, call)

    def widen_by(self, term: Term, links: list[Event]) -> None:
        for link in links:
            self.link(term, link.at, link.line, is_last=link is links[-1])

    def latest_unknown(self) -> int:
        """Returns the latest end of a lease that was held before the period."""
        if any(fault.kind in UNKNOWN_ENDS and fault.began <= self.start for fault in self.history.faults):
            return FOREVER
        ttls = [self.ttl(call) for call in self.calls if call.what != "release" and call.invoked < self.start]
        start = int(self.start[0])
        must_end = start + self.longest(max(ttls, default=0))
        for lease in {link.line["lease"] for link in self.links if link.at < self.start}:
            linked = Term(lease, None, 0, self.start, self.start, start, must_end)
            self.widen_by(linked, [link for link in self.links if link.line["lease"] == lease])
            must_end = max(must_end, linked.must_end)
        unknown = Term(0, None, 0, self.start, self.start, start, must_end)
        # A client that uses its lease may have acquired it again. Other uncertain acquires are leases of their own.
        clients = {each.client for each in self.operations if each.kind.endswith("-before")}
        for call in self.uncertain:
            if call.what != "acquire" or call.client in clients:
                self.doubt(unknown, call)
        return unknown.must_end

    def drop_vacuous(self) -> None:
        """Drops the refusals that fit every order."""
        changes = [each.answered for each in self.operations if not each.reads]
        first = min(changes, default=self.end)
        leases = {term.lease for term in self.model.terms}
        kept: list[Operation] = []
        for each in self.operations:
            if each.kind == "lost" and each.value not in leases:
                self.excused[UNNAMED] += 1
            elif each.kind == "held" and each.invoked < first and each.invoked[0] < self.model.unknown_end:
                self.excused[SURVIVED] += 1
            else:
                kept.append(each)
        self.operations = kept

    def link(self, term: Term, at: Moment, line: dict[str, object], is_last: bool) -> None:
        # A sidecar renews a linked lease, and releases it when its client leaves.
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
