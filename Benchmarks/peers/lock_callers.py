"""Load on locks: processes that acquire and release in a loop, by another library, etcd or a sidecar.

Runs in the virtual environment, which has the libraries. Prints one line of JSON.
"""

import argparse
import json
import multiprocessing
import time
from multiprocessing.queues import SimpleQueue

import redis
import redis_lock

from peers import http_locks
from peers.turns import Turns, figures

WARM_UP = 0.5
#: Seconds, long enough that no lease expires here.
LEASE = 10


class InterlockLock:
    """A sidecar's lock through redis-py."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client, self.name = client, name

    def acquire(self) -> None:
        self.token = self.client.execute_command("LOCK.ACQUIRE", self.name, LEASE * 1000, "WAIT", 60_000)[0]

    def release(self) -> None:
        self.client.execute_command("LOCK.RELEASE", self.name, self.token)


def connected(port: int) -> redis.Redis:
    client = redis.Redis(port=port)
    client.ping()
    return client


#: Functions that take a port and a name, and return a lock.
LOCKS = {
    "redis-py": lambda port, name: connected(port).lock(name, timeout=LEASE, blocking=True),
    "python-redis-lock": lambda port, name: redis_lock.Lock(connected(port), name, expire=LEASE),
    "interlock": lambda port, name: InterlockLock(connected(port), name),
    "interlock-http": lambda port, name: http_locks.InterlockLock(port, name, LEASE),
    # One lease lasts for the whole session, so it must outlive the run.
    "etcd": lambda port, name: http_locks.EtcdLock(port, name, 20 * LEASE),
}


def caller(library: str, port: int, name: str, begin: int, end: int, results: SimpleQueue[Turns]) -> None:
    """Acquires and releases until `end`, then puts its turns into `results`."""
    lock = LOCKS[library](port, name)
    turns = []
    while time.monotonic_ns() < end:
        requested = time.monotonic_ns()
        lock.acquire()
        granted = time.monotonic_ns()
        turns.append((requested, granted, time.monotonic_ns()))
        lock.release()
    results.put(turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LOCKS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--apart", action="store_true", help="give each caller a separate lock")
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    processes = multiprocessing.get_context("fork")
    results = processes.SimpleQueue()
    # The callers need a moment to start.
    begin = time.monotonic_ns() + int((WARM_UP + options.callers * 0.02) * 1e9)
    end = begin + int(options.seconds * 1e9)
    names = [f"handover-{number}" if options.apart else "handover" for number in range(options.callers)]
    callers = [
        processes.Process(target=caller, args=(options.library, options.port, name, begin, end, results), daemon=True)
        for name in names
    ]
    for process in callers:
        process.start()
    turns_of_callers = [results.get() for _ in callers]
    for process in callers:
        process.join()
    print(json.dumps(figures(turns_of_callers, begin, end)))


if __name__ == "__main__":
    main()
