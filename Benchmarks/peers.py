"""Load on one lock of another library: processes that take it and give it back, over and over.

Runs in the virtual environment that has the libraries; prints one line of JSON.
"""

import argparse
import json
import multiprocessing
import time

import redis
import redis_lock

WARM_UP = 0.5
#: Seconds; long enough that a lease never ends by itself here.
LEASE = 10


def redis_py(client, name):
    return client.lock(name, timeout=LEASE, blocking=True)


def python_redis_lock(client, name):
    return redis_lock.Lock(client, name, expire=LEASE)


LOCKS = {"redis-py": redis_py, "python-redis-lock": python_redis_lock}


def caller(library, port, begin, end, results):
    """Puts (asked, granted, releases) of each turn, on the clock that all processes of a machine share."""
    client = redis.Redis(port=port)
    lock = LOCKS[library](client, "handover")
    client.ping()
    turns = []
    while time.monotonic_ns() < end:
        asked = time.monotonic_ns()
        lock.acquire()
        granted = time.monotonic_ns()
        turns.append((asked, granted, time.monotonic_ns()))
        lock.release()
    results.put(turns)


def figures(turns_of_callers, begin, end):
    turns = sorted(
        (granted, asked, releases, caller)
        for caller, turns in enumerate(turns_of_callers) for asked, granted, releases in turns)
    waits = [
        min(granted, end) - max(asked, begin) for granted, asked, _, _ in turns if granted > begin and asked < end]
    pairs = [(left, right) for left, right in zip(turns, turns[1:]) if begin <= right[0] < end]
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
        # The others are turns that a caller gave itself again.
        "to_another": sum(left[3] != right[3] for left, right in pairs),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("library", choices=LOCKS)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--callers", type=int, default=32)
    options.add_argument("--seconds", type=float, default=5)
    options = options.parse_args()
    processes = multiprocessing.get_context("fork")
    results = processes.SimpleQueue()
    # The callers need a moment to start.
    begin = time.monotonic_ns() + int((WARM_UP + options.callers * 0.02) * 1e9)
    end = begin + int(options.seconds * 1e9)
    callers = [
        processes.Process(target=caller, args=(options.library, options.port, begin, end, results), daemon=True)
        for _ in range(options.callers)]
    for process in callers:
        process.start()
    turns_of_callers = [results.get() for _ in callers]
    for process in callers:
        process.join()
    print(json.dumps(figures(turns_of_callers, begin, end)))


if __name__ == "__main__":
    main()
