"""Load on one lock of another library or server, or of a sidecar by the same clients: processes that take it and give it
back, over and over.

Runs in the virtual environment that has the libraries; prints one line of JSON.
"""

import argparse
import json
import multiprocessing
import time

import redis
import redis_lock

from peers import http_locks

WARM_UP = 0.5
#: Seconds; long enough that a lease never ends by itself here.
LEASE = 10


class InterlockLock:
    """By redis-py."""

    def __init__(self, client, name):
        self.client, self.name = client, name

    def acquire(self):
        self.token = self.client.execute_command("LOCK.ACQUIRE", self.name, LEASE * 1000, "WAIT", 60_000)[0]

    def release(self):
        self.client.execute_command("LOCK.RELEASE", self.name, self.token)


def connected(port):
    client = redis.Redis(port=port)
    client.ping()
    return client


#: Each makes a lock of a port and a name.
LOCKS = {
    "redis-py": lambda port, name: connected(port).lock(name, timeout=LEASE, blocking=True),
    "python-redis-lock": lambda port, name: redis_lock.Lock(connected(port), name, expire=LEASE),
    "interlock": lambda port, name: InterlockLock(connected(port), name),
    "interlock-http": lambda port, name: httplocks.InterlockLock(port, name, LEASE),
    # A session keeps its lease, which has to outlive the run.
    "etcd": lambda port, name: httplocks.EtcdLock(port, name, 20 * LEASE),
}


def caller(library, port, name, begin, end, results):
    """Puts (asked, granted, releases) of each turn, on the clock that all processes of a machine share."""
    lock = LOCKS[library](port, name)
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
    options.add_argument("--apart", action="store_true", help="a lock of its own for each")
    options.add_argument("--seconds", type=float, default=5)
    options = options.parse_args()
    processes = multiprocessing.get_context("fork")
    results = processes.SimpleQueue()
    # The callers need a moment to start.
    begin = time.monotonic_ns() + int((WARM_UP + options.callers * 0.02) * 1e9)
    end = begin + int(options.seconds * 1e9)
    names = [f"handover-{number}" if options.apart else "handover" for number in range(options.callers)]
    callers = [
        processes.Process(target=caller, args=(options.library, options.port, name, begin, end, results), daemon=True)
        for name in names]
    for process in callers:
        process.start()
    turns_of_callers = [results.get() for _ in callers]
    for process in callers:
        process.join()
    print(json.dumps(figures(turns_of_callers, begin, end)))


if __name__ == "__main__":
    main()
