"""Traces: when calls are sent, and to which sidecar. Times are nanoseconds from the start of the trace."""

import random
from typing import NamedTuple

SECOND = 1_000_000_000

#: Distance of the adversary's bursts from the edge of a window. It is longer than a reply takes, and a smooth limit
#: does not free a whole number of calls between two bursts.
MARGIN = 17_500_000


class Call(NamedTuple):
    time: int
    sidecar: int
    #: A refused call is sent again at its retry time, if that is before this time; 0: never.
    repeated_until: int = 0


class Trace(NamedTuple):
    calls: list
    length: int

    def times(self, sidecar: int) -> list[int]:
        """Returns the sorted times of the calls to one sidecar."""
        return sorted(call.time for call in self.calls if call.sidecar == sidecar)


def poisson(rate: float, length: int, sidecars: int, seed: str) -> Trace:
    """Returns independent calls at this rate per second."""
    generator = random.Random(seed)
    calls, time = [], 0.0
    while (time := time + generator.expovariate(rate) * SECOND) < length:
        calls.append(Call(int(time), generator.randrange(sidecars)))
    return Trace(calls, length)


def adversary(rate: float, window: int, minimum: int, sidecars: int) -> Trace:
    """Returns bursts just before and just after the edges of windows. The trace lasts at least `minimum`.

    In each turn one call starts a window. A burst comes at its end and another at the start of the next window, and
    then nothing until that window is over. In every other turn, one refused call of each sidecar and burst is repeated
    exactly at its retry time.
    """
    turns = 2 * window + 3 * MARGIN, 3 * window + 3 * MARGIN
    size = max(sidecars, round((rate * sum(turns) / SECOND - 2) / 4))
    calls, begin = [], 0
    while begin < minimum:
        for length, repeats in zip(turns, (False, True), strict=True):
            edge = begin + window
            calls.append(Call(begin, 0))
            # A repeated call of the second burst may start another window.
            for time, until in ((edge - MARGIN, edge + MARGIN), (edge + MARGIN, begin + length - window - MARGIN)):
                calls += burst(time, size, sidecars, until if repeats else 0)
            begin += length
    return Trace(calls, begin)


def burst(time: int, size: int, sidecars: int, repeated_until: int) -> list[Call]:
    """Returns simultaneous calls, spread over the sidecars. The last one to each is repeated if it is refused."""
    first_repeated = size - sidecars
    return [Call(time, index % sidecars, repeated_until if index >= first_repeated else 0) for index in range(size)]


#: By their names in the tables. Each creates a trace from a rate, a window, a minimum length and a number of sidecars.
KINDS = {
    "Poisson": lambda rate, window, length, sidecars: poisson(rate, length, sidecars, seed=f"{rate} {length}"),
    "adversary": adversary,
}
