"""A client apart, in a process of its own: what it meets while others burden its sidecar."""

import multiprocessing
import os
import statistics
import time
from typing import NamedTuple

from rig.client import Client

#: Seconds between two turns of a PING, an acquire and a release.
PACE = 0.005
#: Milliseconds of the lease that it keeps, and seconds between two renewals.
TTL = 3000
RENEWAL = 0.2
CALLS = ("PING", "LOCK.ACQUIRE")


class Turn(NamedTuple):
    #: Nanoseconds of the monotonic clock, which all processes of a machine share.
    at: int
    call: str
    microseconds: float


class Figures(NamedTuple):
    """Of one call, within some span of time: microseconds."""

    count: int
    p50: float
    p99: float
    most: float

    @property
    def text(self):
        return f"{self.p50:,.0f} and {self.p99:,.0f} µs" if self.count else "no answer"


class Bystander:
    """Calls at its own pace from when it is made until it is stopped. Make it before other connections: it is a fork."""

    def __init__(self, port):
        processes = multiprocessing.get_context("fork")
        self.results, theirs = processes.Pipe()
        self.process = processes.Process(target=live, args=(port, theirs), daemon=True)
        self.process.start()
        self.turns = []
        #: What went wrong, and how often the lease was found lost.
        self.errors, self.lost = [], 0

    def stop(self):
        self.results.send("stop")
        self.turns, self.errors, self.lost = self.results.recv()
        self.process.join()

    def figures(self, call, begin, end):
        """Of the calls that were made then, in nanoseconds of the monotonic clock."""
        return figures([turn.microseconds for turn in self.turns if turn.call == call and begin <= turn.at < end])


def figures(times):
    times = sorted(times)
    if not times:
        return Figures(0, 0, 0, 0)
    return Figures(len(times), statistics.median(times), times[len(times) * 99 // 100], times[-1])


def live(port, orders):
    turns, errors, lost = [], [], 0
    client = Client(port)
    client.socket.settimeout(30)
    # Others before it may have left leases behind.
    kept, passing = f"kept-{os.getpid()}", f"passing-{os.getpid()}"
    token = client.command("LOCK.ACQUIRE", kept, TTL)[0]
    renewed = due = time.monotonic()
    while not orders.poll(max(0, due - time.monotonic())):
        due = max(due + PACE, time.monotonic())
        try:
            timed(turns, "PING", client, "PING")
            [mine, *_] = timed(turns, "LOCK.ACQUIRE", client, "LOCK.ACQUIRE", passing, TTL)
            client.command("LOCK.RELEASE", passing, mine)
            if time.monotonic() - renewed > RENEWAL:
                renewed = time.monotonic()
                if client.command("LOCK.RENEW", kept, token, TTL) is None:
                    lost += 1
                    token = client.command("LOCK.ACQUIRE", kept, TTL)[0]
        except (OSError, RuntimeError, TypeError) as error:
            errors.append(repr(error))
            if not isinstance(error, RuntimeError):
                break
    # Whoever asked it to stop is waiting for this; whoever has not will.
    orders.recv()
    orders.send((turns, errors, lost))


def timed(turns, call, client, *words):
    begin = time.monotonic_ns()
    reply = client.command(*words)
    turns.append(Turn(begin, call, (time.monotonic_ns() - begin) / 1000))
    return reply
