"""What the three algorithms grant when nothing takes time, and how much was granted within a window.

Times are whole nanoseconds.
"""

import collections


class Fixed:
    """A counter that its first call sets up and that is gone a window later."""

    def __init__(self, limit, window):
        self.limit, self.window = limit, window
        self.begin, self.used = None, 0

    def grants(self, time):
        if self.begin is None or time >= self.begin + self.window:
            self.begin, self.used = time, 0
        if self.used >= self.limit:
            return False
        self.used += 1
        return True


class Sliding:
    """A log of what was granted: in no window, both its ends included, more than the limit."""

    def __init__(self, limit, window):
        self.limit, self.window = limit, window
        self.granted = collections.deque()

    def grants(self, time):
        while self.granted and self.granted[0] < time - self.window:
            self.granted.popleft()
        if len(self.granted) >= self.limit:
            return False
        self.granted.append(time)
        return True


class Smooth:
    """The generic cell rate algorithm, as redis-cell keeps it: evenly spaced calls, `burst` of them ahead of their time.

    It counts in nanoseconds times the limit: the spacing is a window then, and nothing is rounded.
    """

    def __init__(self, limit, window, burst):
        self.limit, self.spacing = limit, window
        self.tolerance = window * (burst + 1)
        self.arrival = 0

    def grants(self, time):
        now = time * self.limit
        arrival = max(now, self.arrival) + self.spacing
        if now < arrival - self.tolerance:
            return False
        self.arrival = arrival
        return True


def granted(oracle, times):
    """How many calls at these times the oracle grants."""
    return sum(oracle.grants(time) for time in sorted(times))


def most_within(grants, window, closed):
    """The most that was granted in any window of that length, of (time, cost) pairs in order.

    Closed: with both its ends; otherwise without its beginning.
    """
    most = held = first = 0
    for time, cost in grants:
        held += cost
        while grants[first][0] < time - window or not closed and grants[first][0] == time - window:
            held -= grants[first][1]
            first += 1
        most = max(most, held)
    return most
