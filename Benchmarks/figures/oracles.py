"""The grants of the three algorithms if nothing takes time, and the maximum grants within a window.

Times are whole nanoseconds.
"""

import collections
from collections.abc import Iterable, Sequence
from typing import Protocol

Grant = tuple[int, int]
"""(time, cost)"""
Grants = list[Grant]


class Oracle(Protocol):
    def grants(self, time: int) -> bool:
        """Returns whether a call at this time is granted. Times must not decrease."""
        ...


class Fixed:
    """A counter that its first call starts and that ends a window later."""

    def __init__(self, limit: int, window: int) -> None:
        self.limit, self.window = limit, window
        self.begin: int | None = None
        self.used = 0

    def grants(self, time: int) -> bool:
        if self.begin is None or time >= self.begin + self.window:
            self.begin, self.used = time, 0
        if self.used >= self.limit:
            return False
        self.used += 1
        return True


class Sliding:
    """A log of grants: never more than the limit in a window with both its ends."""

    def __init__(self, limit: int, window: int) -> None:
        self.limit, self.window = limit, window
        self.granted: collections.deque[int] = collections.deque()

    def grants(self, time: int) -> bool:
        while self.granted and self.granted[0] < time - self.window:
            self.granted.popleft()
        if len(self.granted) >= self.limit:
            return False
        self.granted.append(time)
        return True


class Smooth:
    """The generic cell rate algorithm, like redis-cell: evenly spaced calls, and `burst` of them early.

    Its unit is a nanosecond ÷ limit. The spacing is then one window, and nothing is rounded.
    """

    def __init__(self, limit: int, window: int, burst: int) -> None:
        self.limit, self.spacing = limit, window
        self.tolerance = window * (burst + 1)
        self.arrival = 0

    def grants(self, time: int) -> bool:
        now = time * self.limit
        arrival = max(now, self.arrival) + self.spacing
        if now < arrival - self.tolerance:
            return False
        self.arrival = arrival
        return True


def granted(oracle: Oracle, times: Iterable[int]) -> int:
    """Returns the number of calls at these times that the oracle grants."""
    return sum(oracle.grants(time) for time in sorted(times))


def maximum_within(grants: Sequence[Grant], window: int, closed: bool) -> int:
    """Returns the maximum grants in any window of that length. `grants` are (time, cost) in order.

    A closed window includes both its ends; any other excludes its beginning.
    """
    maximum = held = first = 0
    for time, cost in grants:
        held += cost
        while grants[first][0] < time - window or (not closed and grants[first][0] == time - window):
            held -= grants[first][1]
            first += 1
        maximum = max(maximum, held)
    return maximum
