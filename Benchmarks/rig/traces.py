"""When calls are sent, and to which sidecar. Times are nanoseconds from the beginning of a trace."""

import random
from typing import NamedTuple

SECOND = 1_000_000_000

#: How far from a window's edge the adversary's bursts are: further than answers take to come, and so that what a smooth limit
#: frees between two of them is not a whole number of calls.
MARGIN = 17_500_000


class Call(NamedTuple):
    time: int
    sidecar: int
    #: If it is refused, it is sent again when it was told to, as long as that is before this time; 0: it is not.
    returns_until: int = 0


class Trace(NamedTuple):
    calls: list
    length: int

    def times(self, sidecar):
        """Of the calls to one sidecar, in order."""
        return sorted(call.time for call in self.calls if call.sidecar == sidecar)


def poisson(rate, length, sidecars, seed):
    """Calls that know nothing of each other, so many a second."""
    chance = random.Random(seed)
    calls, time = [], 0.0
    while (time := time + chance.expovariate(rate) * SECOND) < length:
        calls.append(Call(int(time), chance.randrange(sidecars)))
    return Trace(calls, length)


def adversary(rate, window, least, sidecars):
    """Bursts just before and just after the edges of windows, until the trace lasts at least `least`.

    In each turn a call sets up a window, a burst comes at its end and another at the beginning of the next, and all is quiet
    until that is over too. In every other turn, one refused call of each sidecar and burst comes back exactly when it was told to.
    """
    turns = 2 * window + 3 * MARGIN, 3 * window + 3 * MARGIN
    size = max(sidecars, round((rate * sum(turns) / SECOND - 2) / 4))
    calls, begin = [], 0
    while begin < least:
        for length, returns in zip(turns, (False, True)):
            edge = begin + window
            calls.append(Call(begin, 0))
            # What comes back after the second burst may set up a window once more.
            for time, until in ((edge - MARGIN, edge + MARGIN), (edge + MARGIN, begin + length - window - MARGIN)):
                calls += burst(time, size, sidecars, until if returns else 0)
            begin += length
    return Trace(calls, begin)


def burst(time, size, sidecars, returns_until):
    """So many calls at once, spread over the sidecars; the last one at each comes back."""
    return [Call(time, place % sidecars, returns_until if place >= size - sidecars else 0) for place in range(size)]


#: By the names that tables have for them: each makes a trace of a rate, a window, the least length and the number of sidecars.
KINDS = {
    "Poisson": lambda rate, window, length, sidecars: poisson(rate, length, sidecars, seed=f"{rate} {length}"),
    "adversary": adversary,
}
