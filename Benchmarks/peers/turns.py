"""The figures of callers that acquire and release a lock in turn."""

import itertools
from collections.abc import Sequence

#: (requested, granted, releases) of each turn of one caller, in nanoseconds of a clock that all callers share.
Turns = list[tuple[int, int, int]]


def figures(turns_of_callers: Sequence[Turns], begin: int, end: int) -> dict[str, float]:
    turns = sorted(
        (granted, requested, releases, caller)
        for caller, turns in enumerate(turns_of_callers)
        for requested, granted, releases in turns
    )
    waits = [
        min(granted, end) - max(requested, begin)
        for granted, requested, _, _ in turns
        if granted > begin and requested < end
    ]
    pairs = [(left, right) for left, right in itertools.pairwise(turns) if begin <= right[0] < end]
    handovers = sorted(right[0] - left[2] for left, right in pairs)
    milliseconds = 1_000_000
    return {
        "cycles": len(pairs),
        "seconds": (end - begin) / 1e9,
        "p50_ms": handovers[len(handovers) // 2] / milliseconds,
        "p99_ms": handovers[len(handovers) * 99 // 100] / milliseconds,
        "max_ms": handovers[-1] / milliseconds,
        "longest_wait_ms": max(waits) / milliseconds,
        "mean_cycle_ms": (end - begin) / len(pairs) / milliseconds,
        # In the other cycles, the same caller acquired the lock again.
        "to_another": sum(left[3] != right[3] for left, right in pairs),
    }
