"""Load of decisions: processes that ask another library, or a sidecar by redis-py, for one after the other.

Runs in the virtual environment that has the libraries; prints one line of JSON.
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import redis

from rig import traces

WARM_UP = 0.5
SERVICE = "peers"


def connected(port):
    client = redis.Redis(port=port)
    client.ping()
    return client


def limits_of(strategy):
    """Makes decisions of the library `limits`, with its storage in Redis."""
    def decisions(port, limit):
        import limits
        item = limits.RateLimitItemPerSecond(limit)
        storage = limits.storage.RedisStorage(f"redis://127.0.0.1:{port}")
        storage.check()
        limiter = getattr(limits.strategies, strategy)(storage)
        return lambda: limiter.hit(item, SERVICE)
    return decisions


def take(service):
    def decisions(port, _):
        client = connected(port)
        return lambda: not client.execute_command("LIMIT.TAKE", service)[0]
    return decisions


def pybreaker_calls(port, _):
    import pybreaker
    storage = pybreaker.CircuitRedisStorage(pybreaker.STATE_CLOSED, redis.Redis(port=port), namespace=SERVICE)
    breaker = pybreaker.CircuitBreaker(state_storage=storage)
    return lambda: breaker.call(succeed)


def succeed():
    """The call that is guarded."""
    return True


def permit(port, _):
    client = connected(port)

    def call():
        granted, permit, *_ = client.execute_command("PERMIT.ACQUIRE", SERVICE)
        if not granted:
            return False
        succeed()
        client.execute_command("PERMIT.REPORT", SERVICE, permit, "OK")
        return True
    return call


#: Each makes, of a port and a limit per second, a function that makes one call and tells whether it was let through.
KINDS = {
    "limits-fixed": limits_of("FixedWindowRateLimiter"),
    "limits-moving": limits_of("MovingWindowRateLimiter"),
    "interlock-fixed": take(f"{SERVICE}-fixed"),
    "interlock-sliding": take(f"{SERVICE}-sliding"),
    "pybreaker": pybreaker_calls,
    "interlock-permit": permit,
}


class Run(NamedTuple):
    """Of one caller."""

    #: Within the time that is measured, or in all for a trace.
    calls: int
    #: How many of them were let through.
    granted: int
    #: Those before that time too.
    all_calls: int
    #: Nanoseconds that the latest call of a trace came late.
    late: int = 0


def ask_on(call, begin, end):
    """One call after the other, of which those between the two times are measured."""
    calls = granted = all_calls = 0
    while (now := time.monotonic_ns()) < end:
        let_through = call()
        all_calls += 1
        if now >= begin:
            calls += 1
            granted += let_through
    return Run(calls, granted, all_calls)


def ask_when_due(call, begin, times):
    """Calls at such times after the beginning, or as soon as the one before is answered."""
    granted = late = 0
    for due in times:
        while (left := begin + due - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        late = max(late, -left)
        granted += call()
    return Run(len(times), granted, len(times), late)


def run(options, number, begin):
    call = KINDS[options.kind](options.port, options.limit)
    if not options.trace:
        return ask_on(call, begin, begin + int(options.seconds * 1e9))
    trace = traces.KINDS[options.trace](options.rate, options.window, options.length, options.callers)
    return ask_when_due(call, begin, trace.times(number))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("kind", choices=KINDS)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--callers", type=int, default=1)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--limit", type=int, default=10_000, help="per second, for those that are told one")
    options.add_argument("--trace", choices=traces.KINDS, help="calls at its times, instead of one after the other")
    options.add_argument("--rate", type=float, help="of the trace, per second")
    options.add_argument("--window", type=int, help="of the trace, in nanoseconds")
    options.add_argument("--length", type=int, help="of the trace, in nanoseconds")
    options = options.parse_args()
    # What it imports is there before the fork then.
    KINDS[options.kind](options.port, options.limit)
    # The callers need a moment to start.
    begin = time.monotonic_ns() + int((WARM_UP + options.callers * 0.05) * 1e9)
    # Nobody is done before all have begun: each has a process of its own.
    with ProcessPoolExecutor(options.callers, mp_context=multiprocessing.get_context("fork")) as pool:
        runs = [pool.submit(run, options, number, begin) for number in range(options.callers)]
        runs = [run.result() for run in runs]
    print(json.dumps({
        "calls": sum(run.calls for run in runs), "granted": sum(run.granted for run in runs),
        "all_calls": sum(run.all_calls for run in runs), "seconds": options.seconds,
        "late_ms": max(run.late for run in runs) / 1e6}))


if __name__ == "__main__":
    main()
