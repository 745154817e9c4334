"""Searches for an order of concurrent operations that a sequential object allows.

This is the algorithm of Wing and Gong, with the memoization and the just-in-time order of Lowe ("Testing for
linearizability", 2017). A configuration is a state of the object and the set of unanswered operations that have already
taken effect. The search reads the history once. When an operation is answered, the search keeps the configurations in
which the operation has taken effect, or can take effect after some of the others. If no configuration remains, the
history has no order.

Two rules keep the number of configurations small, and hide no order:

- An operation that never changes the state takes effect as soon as it can. A later time allows no other order.
- If two configurations differ only in the resources that the environment has spent, the search drops the one that has
  spent more.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Moment = tuple[int, float]
"""A time in nanoseconds, and the line in the file, which orders events at the same time."""

FOREVER = 1 << 62
#: The number of configurations above which the search gives up.
MAXIMUM = 20_000


@dataclass(frozen=True)
class Operation:
    """An operation that took effect once, between two moments."""

    kind: str
    client: int
    invoked: Moment
    answered: Moment
    #: The number of a lease's term, the ID of a lease, or the number of a forced state, depending on the kind.
    value: int
    #: Whether the operation never changes the state.
    reads: bool
    #: The answer as the history words it.
    text: str = ""


StateT = TypeVar("StateT", bound=Hashable)


class Model(Protocol[StateT]):
    """A sequential object, and the changes that its environment may make."""

    @property
    def initial(self) -> StateT: ...

    def step(self, state: StateT, operation: Operation) -> StateT | None:
        """Returns the state after the operation; `None` if the object cannot give this answer."""

    def moves(self, state: StateT, now: int, goal: Operation | None) -> Iterable[StateT]:
        """Returns the states that the environment may have changed the state to by now, if they can help the goal."""

    def is_overdue(self, state: StateT, now: int) -> bool:
        """Returns whether the environment must have changed the state by now."""

    def spent(self, state: StateT) -> tuple[Hashable, frozenset[int]]:
        """Splits the state into the part to compare and the resources that the environment has spent."""

    def describe(self, state: StateT) -> str: ...


@dataclass(frozen=True)
class Contradiction:
    """The first event that fits no order."""

    at: int
    operation: Operation | None
    before: str


class Undecided(Exception):
    """The history has too many possible orders."""


Configuration = tuple[StateT, frozenset[int]]


class Search(Generic[StateT]):
    """A search of one history."""

    def __init__(self, model: Model[StateT], operations: Sequence[Operation], ticks: Iterable[int] = ()) -> None:
        self.model = model
        self.operations = operations
        self.ticks = ticks
        self.open: set[int] = set()
        self.most = 1

    def run(self) -> Contradiction | None:
        """Returns the first contradiction; `None` if the history has an order. Raises `Undecided`."""
        invocation, answer, tick = 0, 1, 2
        events: list[tuple[Moment, int, int]] = [((at, float("inf")), tick, at) for at in self.ticks]
        for number, operation in enumerate(self.operations):
            events.append((operation.invoked, invocation, number))
            events.append((operation.answered, answer, number))
        configurations: set[Configuration[StateT]] = {(self.model.initial, frozenset())}
        for (at, _), kind, number in sorted(events):
            if kind == invocation:
                self.open.add(number)
                if self.operations[number].reads:
                    configurations = {self.settle(each) for each in configurations}
                continue
            goal = number if kind == answer else None
            remaining: set[Configuration[StateT]] = set()
            for configuration in configurations:
                remaining |= self.reach(configuration, goal, at)
            if not remaining:
                before = " or ".join(sorted({self.model.describe(state) for state, _ in configurations})[:3])
                return Contradiction(at, None if goal is None else self.operations[goal], before)
            if goal is not None:
                self.open.remove(goal)
                remaining = {(state, done - {goal}) for state, done in remaining}
            configurations = self.cheapest(remaining)
            self.most = max(self.most, len(configurations))
        return None

    def settle(self, configuration: Configuration[StateT]) -> Configuration[StateT]:
        """Returns the configuration after all reads that can take effect."""
        state, done = configuration
        reads = [
            number
            for number in self.open - done
            if self.operations[number].reads and self.model.step(state, self.operations[number]) is not None
        ]
        return state, done.union(reads)

    def reach(self, start: Configuration[StateT], goal: int | None, now: int) -> set[Configuration[StateT]]:
        """Returns the configurations in which the goal has taken effect; without a goal, those that are not overdue."""

        def is_reached(configuration: Configuration[StateT]) -> bool:
            if goal is not None:
                return goal in configuration[1]
            return not self.model.is_overdue(configuration[0], now)

        reached: set[Configuration[StateT]] = set()
        seen = {start}
        pending = [start]
        while pending:
            configuration = pending.pop()
            if is_reached(configuration):
                reached.add(configuration)
                continue
            if len(seen) > MAXIMUM:
                raise Undecided
            state, done = configuration
            following = [
                (after, done | {number})
                for number in self.open - done
                if (after := self.model.step(state, self.operations[number])) is not None
            ]
            target = None if goal is None else self.operations[goal]
            following += [(after, done) for after in self.model.moves(state, now, target)]
            for each in map(self.settle, following):
                if each not in seen:
                    seen.add(each)
                    pending.append(each)
        return reached

    def cheapest(self, configurations: set[Configuration[StateT]]) -> set[Configuration[StateT]]:
        """Drops the configurations that have spent more than an equal one."""
        best: dict[Hashable, list[tuple[frozenset[int], Configuration[StateT]]]] = {}
        for configuration in configurations:
            rest, spent = self.model.spent(configuration[0])
            others = best.setdefault((rest, configuration[1]), [])
            if any(other <= spent for other, _ in others):
                continue
            others[:] = [each for each in others if not spent <= each[0]]
            others.append((spent, configuration))
        kept = {configuration for others in best.values() for _, configuration in others}
        if len(kept) > MAXIMUM:
            raise Undecided
        return kept
