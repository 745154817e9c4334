"""Load of decisions: processes that call a library, or a sidecar through redis-py, in a loop.

Runs in the virtual environment, which has the libraries. Prints one line of JSON.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import redis

from rig import traces

Decide = Callable[[], bool]
"""Makes one call. Returns whether it was allowed."""

WARM_UP = 0.5
SERVICE = "peers"


def connected(port: int) -> redis.Redis:
    client = redis.Redis(port=port)
    client.ping()
    return client


def limits_of(strategy: str) -> Callable[[int, int], Decide]:
    """Decisions of the library `limits`, which counts in Redis."""

    def decisions(port: int, limit: int) -> Decide:
        import limits

        item = limits.RateLimitItemPerSecond(limit)
        storage = limits.storage.RedisStorage(f"redis://127.0.0.1:{port}")
        storage.check()
        limiter = getattr(limits.strategies, strategy)(storage)
        return lambda: limiter.hit(item, SERVICE)

    return decisions


def take(service: str) -> Callable[[int, int], Decide]:
    def decisions(port: int, _: object) -> Decide:
        client = connected(port)
        return lambda: not client.execute_command("LIMIT.TAKE", service)[0]

    return decisions


def pybreaker_calls(port: int, _: object) -> Decide:
    import pybreaker

    storage = pybreaker.CircuitRedisStorage(pybreaker.STATE_CLOSED, redis.Redis(port=port), namespace=SERVICE)
    breaker = pybreaker.CircuitBreaker(state_storage=storage)
    return lambda: breaker.call(succeed)


def succeed() -> bool:
    """The guarded call."""
    return True


def permit(port: int, _: object) -> Decide:
    client = connected(port)

    def call() -> bool:
        granted, permit, *_ = client.execute_command("PERMIT.ACQUIRE", SERVICE)
        if not granted:
            return False
        succeed()
        client.execute_command("PERMIT.REPORT", SERVICE, permit, "OK")
        return True

    return call


#: Each takes a port and a limit per second. It returns a function that makes one call.
KINDS = {
    "limits-fixed": limits_of("FixedWindowRateLimiter"),
    "limits-moving": limits_of("MovingWindowRateLimiter"),
    "interlock-fixed": take(f"{SERVICE}-fixed"),
    "interlock-sliding": take(f"{SERVICE}-sliding"),
    "pybreaker": pybreaker_calls,
    "interlock-permit": permit,
}


class Run(NamedTuple):
    """The counts of one caller."""

    #: The calls within the measured time; for a trace, all of them.
    calls: int
    #: The number of `calls` that were allowed.
    granted: int
    #: All calls, including those before the measured time.
    all_calls: int
    #: The largest delay of a call of a trace, in nanoseconds.
    late: int = 0


def call_repeatedly(call: Decide, begin: int, end: int) -> Run:
    """Makes one call after the other, and measures those between `begin` and `end`."""
    calls = granted = all_calls = 0
    while (now := time.monotonic_ns()) < end:
        allowed = call()
        all_calls += 1
        if now >= begin:
            calls += 1
            granted += allowed
    return Run(calls, granted, all_calls)


def call_at_times(call: Decide, begin: int, times: Sequence[int]) -> Run:
    """Makes calls at these times after `begin`, or as soon as the previous one is answered."""
    granted = late = 0
    for due in times:
        while (remaining := begin + due - time.monotonic_ns()) > 0:
            time.sleep(remaining / 1e9)
        late = max(late, -remaining)
        granted += call()
    return Run(len(times), granted, len(times), late)


def run(options: argparse.Namespace, number: int, begin: int) -> Run:
    call = KINDS[options.kind](options.port, options.limit)
    if not options.trace:
        return call_repeatedly(call, begin, begin + int(options.seconds * 1e9))
    trace = traces.KINDS[options.trace](options.rate, options.window, options.length, options.callers)
    return call_at_times(call, begin, trace.times(number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--limit", type=int, default=10_000, help="per second, for the kinds that have a limit")
    parser.add_argument("--trace", choices=traces.KINDS, help="calls at its times, instead of one at a time")
    parser.add_argument("--rate", type=float, help="of the trace, per second")
    parser.add_argument("--window", type=int, help="of the trace, in nanoseconds")
    parser.add_argument("--length", type=int, help="of the trace, in nanoseconds")
    options = parser.parse_args()
    # Imports the library before the processes fork.
    KINDS[options.kind](options.port, options.limit)
    # The callers need a moment to start.
    begin = time.monotonic_ns() + int((WARM_UP + options.callers * 0.05) * 1e9)
    # Each caller has its own process, and none ends before all have started.
    with ProcessPoolExecutor(options.callers, mp_context=multiprocessing.get_context("fork")) as pool:
        futures = [pool.submit(run, options, number, begin) for number in range(options.callers)]
        runs = [future.result() for future in futures]
    print(
        json.dumps(
            {
                "calls": sum(run.calls for run in runs),
                "granted": sum(run.granted for run in runs),
                "all_calls": sum(run.all_calls for run in runs),
                "seconds": options.seconds,
                "late_ms": max(run.late for run in runs) / 1e6,
            }
        )
    )


if __name__ == "__main__":
    main()
